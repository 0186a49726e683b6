# Installs the packages given after the first argument, without leaving a second Postgres on :5432 or a Redis on
# :6379. Run as root by install.rs: sh -eu -c "<this>" apt.sh <root of the file system, normally empty> <package>..
root=$1
shift
policy=$root/usr/sbin/policy-rc.d
cluster=$root/etc/postgresql-common/createcluster.d/houston.conf
undo=
trap 'rm -f $undo' EXIT
trap 'exit 1' HUP INT TERM

# Debian starts what it installs, unless this file says no. Someone else's file stays as it is.
if [ ! -e "$policy" ] || grep -q houston "$policy"; then
    undo="$undo $policy"
    mkdir -p "${policy%/*}"
    printf '#!/bin/sh\n# houston: for the time of one installation\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
# Debian also makes a cluster for every Postgres it installs.
case " $* " in *' postgresql '*)
    if [ ! -e "$cluster" ]; then
        undo="$undo $cluster"
        mkdir -p "${cluster%/*}"
        echo 'create_main_cluster = false' >"$cluster"
    fi
    ;;
esac

DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"

# Not started now, but enabled for the next boot. Without systemd there is nothing to disable.
for package in "$@"; do
    if [ "$package" = redis-server ] && command -v systemctl >/dev/null; then
        systemctl disable redis-server || true
    fi
done
