# Sourced by bin/up, bin/test and bin/bench: sets $root to the clone and $python to a Python that can make the venv.
# POSIX sh only. Must never install, write or guess anything: it looks, and says in one line what to do.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1

usable='import sys
if sys.version_info < (3, 11): sys.exit(3)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(4)'

python=''
without_venv=''
for candidate in "${PYTHON:-}" python3 python3.11 python3.12 python3.13 python3.14 python; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    found=0
    "$candidate" -E -s -c "$usable" >/dev/null 2>&1 || found=$?
    if [ "$found" -eq 0 ]; then
        python=$candidate
        break
    elif [ "$found" -eq 4 ] && [ -z "$without_venv" ]; then
        without_venv=$candidate
    fi
done

if [ -z "$python" ]; then
    if [ -n "$without_venv" ]; then
        echo "$without_venv cannot make virtual environments. On Debian: apt-get install python3-venv. Then run this again." >&2
    else
        echo "Python 3.11 or later is needed and none was found. On Debian: apt-get install python3 python3-venv; or name one: PYTHON=/path/to/python3 $0" >&2
    fi
    exit 1
fi
