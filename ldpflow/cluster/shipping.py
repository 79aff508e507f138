"""Files sent along with a submitted study: the study itself, and the sources of its plug-ins."""

from __future__ import annotations

from pathlib import Path

from ldpflow.errors import InputError
from ldpflow.study import Study
from ldpflow.study.interactive import MAIN
from ldpflow.study.plugins import FILE_MODULE, plugins_of
from ldpflow.study.writing import toml_text

STUDY_FILE = "study.toml"


def write_study(study: Study, folder: str) -> None:
    """Write a study and its plug-ins to a folder from which ``ldpflow sweep study.toml`` runs as it is.

    Parameters
    ----------
    study : Study
    folder : str
        An empty folder, which becomes the job's working directory.

    Raises
    ------
    InputError
        If a component is defined in a notebook or a script.
    """
    settings = study.settings()
    files, modules = [], []
    for plugin in plugins_of(study.components()):
        if plugin.module.startswith(MAIN):
            raise InputError(
                "plugins", plugin.module.removeprefix(f"{MAIN}."), "components in a file of their own",
                "What a notebook or a script defines cannot travel to a cluster: write it to a file.",
            )  # fmt: skip
        for path, text in plugin.files:
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if plugin.module.startswith(FILE_MODULE):
            files.append(plugin.files[0][0])
        else:
            modules.append(plugin.module)
    if files or modules:
        named = {name: found for name, found in (("files", files), ("modules", modules)) if found}
        settings["plugins"] = settings["plugins"] | named
    Path(folder, STUDY_FILE).write_text(toml_text(settings), encoding="utf-8")
