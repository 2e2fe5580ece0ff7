# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests, of the version that is installed, fetched from PyPI when needed."""

import hashlib
import os
import subprocess
import sys
import tarfile

from joblib import PYTHON
FILES = ("test_cco_buf", "test_cco_obj", "test_op", "test_msgzero", "test_cco_obj_inter",
         "test_threads")
SHA256 = {
    "3.1.4": "17858f2ebc623220d0120d1fa8d428d033dde749c4bc35b33d81a66ad7f93480",
    "3.1.5": "a706e76db9255135c2fb5d1ef54cb4f7b0e4ad9e33cbada7de27626205f2a153",
}


def installed_version():
    done = subprocess.run([PYTHON, "-c", "import mpi4py; print(mpi4py.__version__)"],
                          text=True, capture_output=True)
    return done.stdout.strip()


def download(version, folder):
    """What pip said, or None."""
    os.makedirs(folder, exist_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
             "--no-binary", ":all:", "--disable-pip-version-check", "--dest", folder,
             "mpi4py==" + version], text=True, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "no answer in 120 s"
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    return lines[-1] if done.returncode else None


def fetch(build):
    """(the folder of the tests, None) or (None, why there is none)."""
    version = installed_version()
    if version not in SHA256:
        return None, "no mpi4py 3.1.4 or 3.1.5 for %s" % PYTHON
    folder = os.path.join(build, "mpi4py")
    tests = os.path.join(folder, "mpi4py-" + version, "test")
    if os.path.isdir(tests):
        return tests, None
    archive = os.path.join(folder, "mpi4py-%s.tar.gz" % version)
    if not os.path.exists(archive):
        why = download(version, folder)
        if why:
            return None, "mpi4py's tests cannot be fetched: " + why
    with open(archive, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != SHA256[version]:
            return None, "%s is not what it was when this was written" % archive
    with tarfile.open(archive) as file:
        file.extractall(folder)
    return tests, None
