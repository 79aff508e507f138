#!/usr/bin/env bash
# Run a study on a Slurm allocation. Ray runs on its nodes while the job lasts.
#
#   sbatch workflows/cluster/slurm.sh paper-table1 --out /shared/runs/table1
#
# The arguments are those of `ldpflow sweep`. --out is on a file system that the nodes share, or an
# s3:// or gs:// address. To continue a run, submit the job again. Change: nodes, cores, time, and the
# activation of ldpflow's environment (or set LDPFLOW_ENV to it).
#SBATCH --job-name=ldpflow
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60

set -euo pipefail

# shellcheck source=/dev/null
[ -z "${LDPFLOW_ENV:-}" ] || source "$LDPFLOW_ENV/bin/activate"

# The job has a token of its own. Its nodes see the file, and other users cannot read it.
token="$(mktemp -p "${LDPFLOW_SHARED:-$PWD}" .ray-token-XXXXXX)"
python -c 'import secrets; print(secrets.token_hex(32), end="")' >"$token"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$token"

# Kernels are compiled once per node, on its own disk.
export LDPFLOW_CACHE_DIR="${LDPFLOW_CACHE_DIR:-/tmp/ldpflow-$(id -un)}"
# Ray's sockets allow no long path; jobs of one user may share a node.
temporary="/tmp/ray-$SLURM_JOB_ID"
port=$((20000 + SLURM_JOB_ID % 10000))

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head="${nodes[0]}"
address="$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')"

steps=()
trap 'kill "${steps[@]}" 2>/dev/null || true; wait || true; rm -f -- "$token"' EXIT

start() { # node, then options of ray start
    local node="$1"
    shift
    srun --nodes=1 --ntasks=1 --nodelist="$node" --cpus-per-task="$SLURM_CPUS_PER_TASK" \
        bash -c 'ulimit -n "$(ulimit -H -n)"; exec "$@"' ray \
        ray start --block --disable-usage-stats --num-cpus="$SLURM_CPUS_PER_TASK" "$@" &
    steps+=("$!")
}

start "$head" --head --node-ip-address="$address" --port="$port" --include-dashboard=false \
    --temp-dir="$temporary"
until ray status --address "$address:$port" >/dev/null 2>&1; do
    kill -0 "${steps[0]}" || exit 1 # it has ended and printed the reason
    sleep 1
done
for node in "${nodes[@]:1}"; do
    start "$node" --address="$address:$port"
done

# The sweep uses nodes as soon as they join. A minute before the end Slurm sends SIGTERM, which stops
# the sweep in order.
ldpflow sweep "$@" --address "$address:$port" &
sweep="$!"
trap 'kill -TERM "$sweep"' TERM
code=0
wait "$sweep" || code="$?"
while kill -0 "$sweep" 2>/dev/null; do wait "$sweep" || code="$?"; done
exit "$code"
