# SPDX-License-Identifier: BSD-3-Clause
"""The ways in which a user of Horovod hands the library to the ranks; docs/horovod.md."""

import os
import re
import subprocess

from harness import CaseError, LAB
from training import EXAMPLES, QUIET

LIMIT_S = 90
STEPS = 3
# What horovodrun and mpirun call to reach a host: ssh takes options also behind the host.
SSH = """#!/bin/sh
host=
while [ $# -gt 0 ]; do
	case $1 in
	-[oplFi]) shift 2 ;;
	-*) shift ;;
	*) [ -z "$host" ] || break; host=$1; shift ;;
	esac
done
exec %s-agent %s "$host" "$@"
"""


def command(lab, *words, env=None):
    """A user's command on h1, with nothing in its environment but what he would set."""
    programs = os.path.dirname(lab.horovod.python("torch"))
    ssh = os.path.join(lab.folder, "ssh")
    with open(ssh, "w") as file:
        file.write(SSH % (LAB, lab.name))
    os.chmod(ssh, 0o755)
    settings = {"PATH": ":".join([lab.folder, programs, os.environ["PATH"]]),
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_btl_tcp_if_include": "eth0",
                "OMPI_MCA_oob_tcp_if_include": "eth0", **QUIET, **(env or {})}
    script = os.path.join(lab.horovod.examples, EXAMPLES["torch"])
    process = lab.popen("exec", "h1", "env", *("%s=%s" % x for x in settings.items()),
                        *words, "python", script, "--steps", str(STEPS))
    try:
        said = process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        raise
    return process.returncode, said


def check(done, where):
    """Both ranks carry the library, and it took something on each."""
    status, said = done
    taken = re.findall(r"stats: MPI_Allreduce taken=(\d+)/", said)
    if status != 0 or " 2 ranks in %s" % where not in said or \
            len(taken) != 2 or "0" in taken:
        raise CaseError("status %d:\n%s" % (status, said))


def mpirun(lab):
    """-x; the ranks need the PATH too, where python is not the system's."""
    check(command(lab, "mpirun", "-np", "2", "-H", "h1:1,h2:1", "-x", "PATH",
                  "-x", "LD_PRELOAD=" + lab.library, "-x", "BPSMPI_STATS=1",
                  "-x", "BPSMPI_MODE=always"), "2 boxes")


def mpirun_one_host(lab):
    """LD_PRELOAD for mpirun itself: it is inert there, and this host's ranks inherit it."""
    check(command(lab, "mpirun", "-np", "2", "-H", "h1:2", env={
        "LD_PRELOAD": lab.library, "BPSMPI_STATS": "1", "BPSMPI_MODE": "always"}),
        "one box")


def base_env_list(lab):
    """Where nothing can be added to mpirun's words; never beside -x."""
    check(command(lab, "mpirun", "-np", "2", "-H", "h1:1,h2:1", env={
        "OMPI_MCA_mca_base_env_list":
            "PATH;LD_PRELOAD=%s;BPSMPI_STATS=1;BPSMPI_MODE=always" % lab.library}),
        "2 boxes")


def horovodrun(lab):
    """All of horovodrun's environment goes to the ranks."""
    check(command(lab, "horovodrun", "--mpi", "-np", "2", "-H", "h1:1,h2:1", env={
        "LD_PRELOAD": lab.library, "BPSMPI_STATS": "1", "BPSMPI_MODE": "always"}),
        "2 boxes")


def horovodrun_args(lab):
    """--mpi-args; horovodrun itself does not carry the library."""
    check(command(lab, "horovodrun", "--mpi", "-np", "2", "-H", "h1:1,h2:1",
                  "--mpi-args=-x LD_PRELOAD=%s -x BPSMPI_STATS=1 -x BPSMPI_MODE=always"
                  % lab.library), "2 boxes")


CASES = [
    ("mpirun -x LD_PRELOAD", mpirun),
    ("LD_PRELOAD mpirun, one host", mpirun_one_host),
    ("mpirun, mca_base_env_list", base_env_list),
    ("LD_PRELOAD horovodrun", horovodrun),
    ("horovodrun --mpi-args", horovodrun_args),
]
