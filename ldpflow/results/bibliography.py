"""The papers whose methods are bundled, as BibTeX entries."""

from __future__ import annotations

__all__ = ["ENTRIES"]

ENTRIES: dict[str, tuple[str, dict[str, str]]] = {
    "morris2019": (
        "article",
        {
            "author": "Morris, Tim P. and White, Ian R. and Crowther, Michael J.",
            "title": "Using simulation studies to evaluate statistical methods",
            "journal": "Statistics in Medicine",
            "volume": "38",
            "number": "11",
            "pages": "2074--2102",
            "year": "2019",
        },
    ),
    "dette2024": (
        "misc",
        {
            "author": "Dette, Holger and Graw, Carina",
            "title": "Uncertainty quantification by block bootstrap for differentially private stochastic "
            "gradient descent",
            "year": "2024",
            "eprint": "2405.12553",
        },
    ),
    "chen2020": (
        "article",
        {
            "author": "Chen, Xi and Lee, Jason D. and Tong, Xin T. and Zhang, Yichen",
            "title": "Statistical inference for model parameters in stochastic gradient descent",
            "journal": "The Annals of Statistics",
            "volume": "48",
            "number": "1",
            "pages": "251--273",
            "year": "2020",
        },
    ),
    "zhu2023": (
        "article",
        {
            "author": "Zhu, Wanrong and Chen, Xi and Wu, Wei Biao",
            "title": "Online covariance matrix estimation in stochastic gradient descent",
            "journal": "Journal of the American Statistical Association",
            "volume": "118",
            "year": "2023",
            "eprint": "2002.03979",
        },
    ),
    "singh2025": (
        "article",
        {
            "author": "Singh, Rahul and Shukla, Abhinek and Vats, Dootika",
            "title": "On the utility of equal batch sizes for inference in stochastic gradient descent",
            "journal": "Journal of Machine Learning Research",
            "volume": "26",
            "number": "258",
            "year": "2025",
            "eprint": "2303.07706",
        },
    ),
    "vats2022": (
        "article",
        {
            "author": "Vats, Dootika and Flegal, James M.",
            "title": "Lugsail lag windows for estimating time-average covariance matrices",
            "journal": "Biometrika",
            "volume": "109",
            "number": "3",
            "pages": "735--750",
            "year": "2022",
            "doi": "10.1093/biomet/asab049",
            "eprint": "1809.04541",
        },
    ),
    "wei2023": (
        "misc",
        {
            "author": "Wei, Ziyang and Zhu, Wanrong and Wu, Wei Biao",
            "title": "Weighted averaged stochastic gradient descent: asymptotic normality and optimality",
            "year": "2023",
            "eprint": "2307.06915",
        },
    ),
    "lam2026": (
        "article",
        {
            "author": "Lam, Henry and Wang, Zitong",
            "title": "Cheap bootstrap for fast uncertainty quantification of stochastic gradient descent",
            "journal": "Journal of Machine Learning Research",
            "volume": "27",
            "year": "2026",
            "eprint": "2310.11065",
        },
    ),
    "waudbysmith2024": (
        "article",
        {
            "author": "Waudby-Smith, Ian and Arbour, David and Sinha, Ritwik and Kennedy, Edward H. and "
            "Ramdas, Aaditya",
            "title": "Time-uniform central limit theory and asymptotic confidence sequences",
            "journal": "The Annals of Statistics",
            "volume": "52",
            "pages": "2613--2640",
            "year": "2024",
            "doi": "10.1214/24-AOS2408",
            "eprint": "2103.06476",
        },
    ),
    "xie2024": (
        "misc",
        {
            "author": "Xie, Chuhan and Jin, Kaicheng and Liang, Jiadong and Zhang, Zhihua",
            "title": "Asymptotic time-uniform inference for parameters in averaged stochastic approximation",
            "year": "2024",
            "eprint": "2410.15057",
        },
    ),
    "liu2023": (
        "inproceedings",
        {
            "author": "Liu, Yi and Hu, Qirui and Ding, Lei and Jiang, Bei and Kong, Linglong",
            "title": "Online local differential private quantile inference via self-normalization",
            "booktitle": "International Conference on Machine Learning",
            "pages": "21698--21714",
            "year": "2023",
            "eprint": "2306.10260",
        },
    ),
    "lee2022": (
        "inproceedings",
        {
            "author": "Lee, Sokbae and Liao, Yuan and Seo, Myung Hwan and Shin, Youngki",
            "title": "Fast and robust online inference with stochastic gradient descent via random scaling",
            "booktitle": "AAAI Conference on Artificial Intelligence",
            "volume": "36",
            "number": "7",
            "pages": "7381--7389",
            "year": "2022",
            "doi": "10.1609/aaai.v36i7.20701",
            "eprint": "2106.03156",
        },
    ),
    "fang2018": (
        "article",
        {
            "author": "Fang, Yixin and Xu, Jinfeng and Yang, Lei",
            "title": "Online bootstrap confidence intervals for the stochastic gradient descent estimator",
            "journal": "Journal of Machine Learning Research",
            "volume": "19",
            "number": "78",
            "year": "2018",
        },
    ),
    "ni2026": (
        "misc",
        {
            "author": "Ni, Yijin and Huo, Xiaoming",
            "title": "Online covariance estimation in averaged {SGD}: improved batch-means rates and minimax "
            "optimality via trajectory regression",
            "year": "2026",
            "eprint": "2604.10814",
        },
    ),
    "frees1990": (
        "article",
        {
            "author": "Frees, Edward W. and Ruppert, David",
            "title": "Estimation following a sequentially designed experiment",
            "journal": "Journal of the American Statistical Association",
            "volume": "85",
            "number": "412",
            "pages": "1123--1129",
            "year": "1990",
        },
    ),
    "fieller1954": (
        "article",
        {
            "author": "Fieller, E. C.",
            "title": "Some problems in interval estimation",
            "journal": "Journal of the Royal Statistical Society, Series B",
            "volume": "16",
            "number": "2",
            "pages": "175--185",
            "year": "1954",
        },
    ),
    "zhu2024": (
        "misc",
        {
            "author": "Zhu, Wanrong and Lou, Zhipeng and Wei, Ziyang and Wu, Wei Biao",
            "title": "High confidence level inference is almost free using parallel stochastic optimization",
            "year": "2024",
            "eprint": "2401.09346",
        },
    ),
    "kuchibhotla2024": (
        "article",
        {
            "author": "Kuchibhotla, Arun Kumar and Balakrishnan, Sivaraman and Wasserman, Larry",
            "title": "The {HulC}: confidence regions from convex hulls",
            "journal": "Journal of the Royal Statistical Society, Series B",
            "volume": "86",
            "number": "3",
            "pages": "586--622",
            "year": "2024",
            "eprint": "2105.14577",
            "doi": "10.1093/jrsssb/qkad134",
        },
    ),
    "tran2022": (
        "inproceedings",
        {
            "author": "Tran, Hoang and Cutkosky, Ashok",
            "title": "Momentum aggregation for private non-convex {ERM}",
            "booktitle": "Advances in Neural Information Processing Systems",
            "volume": "35",
            "pages": "10996--11008",
            "year": "2022",
            "eprint": "2210.06328",
        },
    ),
    "varshney2022": (
        "inproceedings",
        {
            "author": "Varshney, Prateek and Thakurta, Abhradeep and Jain, Prateek",
            "title": "(Nearly) optimal private linear regression via adaptive clipping",
            "booktitle": "Conference on Learning Theory",
            "year": "2022",
            "eprint": "2207.04686",
        },
    ),
    "abadi2016": (
        "inproceedings",
        {
            "author": "Abadi, Martin and Chu, Andy and Goodfellow, Ian and McMahan, H. Brendan and Mironov, "
            "Ilya and Talwar, Kunal and Zhang, Li",
            "title": "Deep learning with differential privacy",
            "booktitle": "ACM Conference on Computer and Communications Security",
            "pages": "308--318",
            "year": "2016",
        },
    ),
    "jain2018": (
        "article",
        {
            "author": "Jain, Prateek and Kakade, Sham M. and Kidambi, Rahul and Netrapalli, Praneeth and "
            "Sidford, Aaron",
            "title": "Parallelizing stochastic gradient descent for least squares regression: mini-batching, "
            "averaging, and model misspecification",
            "journal": "Journal of Machine Learning Research",
            "volume": "18",
            "number": "223",
            "pages": "1--42",
            "year": "2018",
        },
    ),
    "song2013": (
        "inproceedings",
        {
            "author": "Song, Shuang and Chaudhuri, Kamalika and Sarwate, Anand D.",
            "title": "Stochastic gradient descent with differentially private updates",
            "booktitle": "IEEE Global Conference on Signal and Information Processing",
            "pages": "245--248",
            "year": "2013",
        },
    ),
    "warner1965": (
        "article",
        {
            "author": "Warner, Stanley L.",
            "title": "Randomized response: a survey technique for eliminating evasive answer bias",
            "journal": "Journal of the American Statistical Association",
            "volume": "60",
            "number": "309",
            "pages": "63--69",
            "year": "1965",
        },
    ),
    "dwork2006": (
        "inproceedings",
        {
            "author": "Dwork, Cynthia and McSherry, Frank and Nissim, Kobbi and Smith, Adam",
            "title": "Calibrating noise to sensitivity in private data analysis",
            "booktitle": "Theory of Cryptography Conference",
            "year": "2006",
        },
    ),
    "dong2022": (
        "article",
        {
            "author": "Dong, Jinshuo and Roth, Aaron and Su, Weijie J.",
            "title": "Gaussian differential privacy",
            "journal": "Journal of the Royal Statistical Society, Series B",
            "volume": "84",
            "number": "1",
            "pages": "3--37",
            "year": "2022",
        },
    ),
    "wang2017": (
        "inproceedings",
        {
            "author": "Wang, Tianhao and Blocki, Jeremiah and Li, Ninghui and Jha, Somesh",
            "title": "Locally differentially private protocols for frequency estimation",
            "booktitle": "USENIX Security Symposium",
            "year": "2017",
        },
    ),
    "acharya2019": (
        "inproceedings",
        {
            "author": "Acharya, Jayadev and Sun, Ziteng and Zhang, Huanyu",
            "title": "Hadamard response: estimating distributions privately, efficiently, and with little "
            "communication",
            "booktitle": "International Conference on Artificial Intelligence and Statistics",
            "pages": "1120--1129",
            "year": "2019",
            "eprint": "1802.04705",
        },
    ),
    "cormode2019": (
        "article",
        {
            "author": "Cormode, Graham and Kulkarni, Tejas and Srivastava, Divesh",
            "title": "Answering range queries under local differential privacy",
            "journal": "Proceedings of the VLDB Endowment",
            "volume": "12",
            "number": "10",
            "pages": "1126--1138",
            "year": "2019",
            "eprint": "1812.10942",
        },
    ),
    "hay2010": (
        "article",
        {
            "author": "Hay, Michael and Rastogi, Vibhor and Miklau, Gerome and Suciu, Dan",
            "title": "Boosting the accuracy of differentially private histograms through consistency",
            "journal": "Proceedings of the VLDB Endowment",
            "volume": "3",
            "number": "1",
            "year": "2010",
            "eprint": "0904.0942",
        },
    ),
}
"""BibTeX entries: type and fields by key. ``eprint`` is a number of arXiv."""
