#!/bin/sh
# Install clocs without internet, from a folder that deploy/collect.sh made.
#   install.sh ENVIRONMENT        for example /opt/clocs
# Every file is compared with its hash. No index is asked, and no configuration of pip is read.
set -eu
[ "$#" -eq 1 ] || { sed -n '2,4s/^# *//p' "$0" >&2; exit 2; }
environment=$1
case $environment in /*) ;; *) environment=$PWD/$environment ;; esac
cd "$(dirname "$0")"
sha256sum --check --quiet SHA256SUMS
"${PYTHON:-python3.11}" -m venv "$environment"
"$environment/bin/python" -m pip --isolated --disable-pip-version-check install --no-index -f wheels \
    --require-hashes -r requirements.txt
"$environment/bin/clocs" --version
