#!/usr/bin/env bash
# A real Slurm cluster in namespaces of its own: munge, MariaDB, slurmdbd, slurmctld, two slurmd with four pretended GPUs
# each, sshd as the login node, and slurmrestd. Runs as the first process of a PID namespace: when it ends, all of it does.
# Usage: cluster.sh DIR ADDRESS/BITS GATEWAY, and an interface eth0 given to its network namespace
# (DIR/key.pub is who may log in as alice; DIR/ready appears when jobs can be submitted)
set -euo pipefail
dir=$1
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount --bind "$dir/etc-slurm" /etc/slurm
cp /etc/passwd "$dir/passwd"; cp /etc/group "$dir/group"
echo "alice:x:3001:3001::$dir/home:/bin/bash" >>"$dir/passwd"; echo 'alice:x:3001:' >>"$dir/group"
mount --bind "$dir/passwd" /etc/passwd; mount --bind "$dir/group" /etc/group
echo '127.0.0.1 localhost login dgx01 dgx02' >"$dir/hosts"; mount --bind "$dir/hosts" /etc/hosts
# slurmrestd asks for the name of whoever connects, one at a time, and there is no name server: each would wait 10 s.
printf 'passwd: files\ngroup: files\nhosts: files\n' >"$dir/nsswitch.conf"; mount --bind "$dir/nsswitch.conf" /etc/nsswitch.conf
hostname login
ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip address add "$2" dev eth0; ip link set eth0 up; ip route add default via "$3"
mkdir -p /run/munge /run/mysqld /run/sshd "$dir"/{home/.ssh,dev,state,spool,db}
chown munge: /run/munge; chown mysql: /run/mysqld "$dir/db"

# Who may log in, and the host's key.
cp "$dir/key.pub" "$dir/home/.ssh/authorized_keys"
echo "PATH=$dir/bin:\$PATH" >"$dir/home/.profile"
chmod 700 "$dir/home" "$dir/home/.ssh"; chown -R 3001:3001 "$dir/home"

head -c 128 /dev/urandom >"$dir/munge.key"; chown munge: "$dir/munge.key"; chmod 400 "$dir/munge.key"
install -d -o munge "$dir/munge"
setpriv --reuid munge --regid munge --clear-groups \
  munged --key-file "$dir/munge.key" --log-file "$dir/munge/log" --seed-file "$dir/munge/seed" --pid-file /run/munge/munged.pid

head -c 32 /dev/urandom >"$dir/jwt.key"; chmod 600 "$dir/jwt.key"

mariadb-install-db --no-defaults --user=mysql --datadir="$dir/db" --auth-root-authentication-method=socket \
  --skip-test-db --force >"$dir/db.log" 2>&1
mariadbd --no-defaults --user=mysql --datadir="$dir/db" --socket=/run/mysqld/mysqld.sock --skip-networking \
  --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=0 --skip-log-bin >>"$dir/db.log" 2>&1 &
until mariadb-admin --no-defaults --socket=/run/mysqld/mysqld.sock ping >/dev/null 2>&1; do sleep 0.1; done

cat >"$dir/etc-slurm/slurmdbd.conf" <<CONF
DbdHost=login
DbdAddr=127.0.0.1
SlurmUser=root
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$dir/jwt.key
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
LogFile=$dir/slurmdbd.log
PidFile=/run/slurmdbd.pid
CONF
chmod 600 "$dir/etc-slurm/slurmdbd.conf"
cat >"$dir/etc-slurm/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=login(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$dir/jwt.key
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
GresTypes=gpu
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=2,bf_interval=2
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
NodeName=dgx[01-02] NodeHostname=login NodeAddr=127.0.0.1 Port=[16901-16902] CPUs=8 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=16000 Gres=gpu:v100:4
PartitionName=dgx2 Nodes=dgx[01-02] Default=YES MaxTime=60 State=UP
CONF
for gpu in 0 1 2 3; do mknod "$dir/dev/gpu$gpu" c 1 3; done
echo "NodeName=dgx[01-02] Name=gpu Type=v100 File=$dir/dev/gpu[0-3]" >"$dir/etc-slurm/gres.conf"

slurmdbd
until sacctmgr -n list cluster >/dev/null 2>&1; do sleep 0.2; done
sacctmgr -i add cluster test >/dev/null
slurmctld
slurmd -N dgx01
slurmd -N dgx02

cat >"$dir/sshd_config" <<CONF
Port 2222
HostKey $dir/host_key
UsePAM no
StrictModes no
PasswordAuthentication no
AuthorizedKeysFile .ssh/authorized_keys
PidFile /run/sshd.pid
CONF
/usr/sbin/sshd -f "$dir/sshd_config" -E "$dir/sshd.log"
until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; do sleep 0.2; done
# It refuses to run as root; whoever asks shows a token of Slurm's own.
SLURM_JWT=daemon setpriv --reuid nobody --regid nogroup --clear-groups \
  slurmrestd -a rest_auth/jwt 0.0.0.0:6820 >"$dir/slurmrestd.log" 2>&1 &
scontrol token lifespan=86400 username=alice | sed 's/^SLURM_JWT=//' >"$dir/token"
until (echo >/dev/tcp/127.0.0.1/6820) 2>/dev/null; do sleep 0.1; done
touch "$dir/ready"
# A shell stays the first process: it takes up the orphans of Slurm's daemons.
sleep infinity &
wait
