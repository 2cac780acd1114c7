//! What runs on the login node: fixed texts for `sh`, whose arguments are quoted words. Each can be cut off at any moment
//! and run again. They need what every Slurm login node has: a POSIX shell, coreutils, util-linux, tar, find.
//!
//! A job's directory has `work/`, where the user's files are, and `meta/`, where these scripts note how far they are.

/// Before each of the others: on many clusters only a login shell knows where Slurm's programs are.
pub const PRELUDE: &str = r#"command -v squeue >/dev/null 2>&1 || {
  path=$(bash -lc 'echo "@@$PATH"' </dev/null 2>/dev/null | sed -n 's/^@@//p'); PATH=$PATH:$path; export PATH
}
"#;

/// `DIR NAME ATTEMPT SINCE`: prints all that there is to know, as [`crate::seen::Seen`] reads it. Slurm's programs wait for
/// a controller that is down, so each has a time limit. The accounts are asked for ends, not for what waits or runs: they
/// cost a cluster most. Of an array they are asked as soon as one task has ended.
pub const LOOK: &str = r#"
user=$(id -un)
said=$(timeout 20 squeue -h -r -t all -u "$user" -n "$2" -o '%i|%A|%T|%r|%S|%P|%N' 2>&1); code=$?
echo "@@squeue $code"; printf '%s\n' "$said" | sed 's/^/ /'
cd -- "$1" 2>/dev/null || { echo '@@absent'; exit 0; }
echo '@@directory'; pwd -P | sed 's/^/ /'
for file in uploaded built "jobid.$3" "refused.$3"; do
  [ -f "meta/$file" ] || continue
  echo "@@${file%%.*}"; head -c 8192 "meta/$file" | sed 's/^/ /'; echo
done
if [ -f meta/built ] && [ "$(cat meta/built)" != 0 ]; then
  echo '@@buildlog'; tail -c 4096 meta/build.log | sed 's/^/ /'; echo
fi
if [ -s "meta/jobid.$3" ] || [ -n "$said" ]; then ask=1; else ask=; fi
active='[|][0-9]+[|](PENDING|CONFIGURING|RUNNING|COMPLETING)[|]'
printf '%s\n' "$said" | grep -qE "^[0-9]+$active" && ask=
ended=; for file in meta/exit.*; do [ ! -f "$file" ] || ended=1; done
[ -z "$said" ] || [ -n "$ended" ] || printf '%s\n' "$said" | grep -qvE "^[0-9]+(_[0-9]+)?$active" || ask=
said=; code=0
[ -z "$ask" ] || { said=$(timeout 20 sacct -n -P -u "$user" -S "$4" --name="$2" \
  -o JobID,State,ExitCode,Elapsed,TotalCPU,MaxRSS,AllocTRES,NodeList,Partition 2>&1); code=$?; }
echo "@@sacct $code"; printf '%s\n' "$said" | sed 's/^/ /'
echo '@@exits'
for file in meta/exit.*; do
  [ -f "$file" ] && echo " ${file##*.} $(head -c 16 "$file")"
done
exit 0
"#;

/// `DIR DIGEST`, a tar of `work/` and `meta/` on standard input: brings the files, and notes that they are whole.
pub const UPLOAD: &str = r#"
umask 077
mkdir -p -- "$1/meta" "$1/work" && cd -- "$1" && chmod 700 . || exit 70
rm -f meta/uploaded meta/built meta/manifest
tar -xf - && [ "$(sha256sum <meta/manifest | cut -d ' ' -f 1)" = "$2" ] && (cd work && sha256sum --quiet -c ../meta/manifest) || exit 71
printf '%s\n' "$2" >meta/uploaded.new && mv meta/uploaded.new meta/uploaded
"#;

/// `DIR SECONDS`: compiles, and notes how that ended. The lock is held as long as anything of it runs.
pub const BUILD: &str = r#"
umask 077
cd -- "$1/work" || exit 70
exec 9>../meta/lock; flock -w 5 9 || exit 75
timeout -k 5 "$2" bash -l ../meta/build.sh >../meta/build.log 2>&1 </dev/null
echo $? >../meta/built.new && mv ../meta/built.new ../meta/built
"#;

/// `DIR NAME ATTEMPT COMMENT SINCE`: submits unless that was done before. Whoever was cut off while sbatch ran still holds
/// the lock through it; afterwards Slurm itself is asked for a job with the name.
pub const SUBMIT: &str = r#"
umask 077
cd -- "$1" || exit 70
exec 9>meta/lock; flock -w 5 9 || exit 75
[ -s "meta/jobid.$3" ] && exit 0
user=$(id -un)
found=$(timeout 20 squeue -h -t all -u "$user" -n "$2" -o '%F') || exit 76
[ -n "$found" ] || found=$(timeout 20 sacct -n -X -P -u "$user" -S "$5" --name="$2" -o JobID 2>/dev/null)
if [ -n "$found" ]; then
  printf '%s\n' "$found" | head -n 1 >meta/jobid.new && mv meta/jobid.new "meta/jobid.$3"
  exit 0
fi
MINIK8S_META=$(pwd -P)/meta; export MINIK8S_META
cd work || exit 70
timeout 60 sbatch --parsable --job-name="$2" --comment="$4" --chdir="$(pwd -P)" ../meta/batch.sh \
  >../meta/sbatch.out 2>../meta/sbatch.err </dev/null
code=$?
cd ../meta || exit 70
if [ $code = 0 ]; then mv sbatch.out "jobid.$3"; exit 0; fi
[ $code = 124 ] && exit 76
grep -qiE 'contact slurm controller|timed out|connection|temporar|try again' sbatch.err && exit 76
[ -s sbatch.err ] || echo "sbatch ended with code $code" >sbatch.err
mv sbatch.err "refused.$3"
"#;

/// `NAME`: ends every task of the job.
pub const CANCEL: &str = r#"timeout 20 scancel -u "$(id -un)" -n "$1""#;

/// `DIR BYTES`, on standard input number, name and offset of each file, separated by NUL: what was added to them since, so
/// many bytes of each at most. A line per file: its number, and the bytes in base64, so that nothing in them ends the line.
pub const TAIL: &str = r#"
cd -- "$1/work" 2>/dev/null || exit 0
xargs -0 -r -n 3 sh -c '[ -f "./$2" ] || exit 0
printf "%s " "$1"; tail -c "+$(($3 + 1))" -- "./$2" | head -c "$0" | base64 -w 0; echo' "$2"
"#;

/// `DIR`: every file with its size, separated by NUL.
pub const LIST: &str = r#"cd -- "$1/work" 2>/dev/null || exit 0
find . -type f -printf '%s\t%P\0'"#;

/// `DIR`, names on standard input, separated by NUL: their hashes.
pub const HASH: &str = r#"cd -- "$1/work" && xargs -0 -r sha256sum -z --"#;

/// `DIR`, names on standard input, separated by NUL: a tar of them.
pub const FETCH: &str = r#"cd -- "$1/work" && tar -cf - --null -T -"#;

/// `DIR`: leaves nothing of the job. Only a directory that these scripts made is removed.
pub const CLEAN: &str = r#"[ -d "$1/meta" ] || exit 0
rm -rf -- "$1""#;

/// What a cluster has.
pub const PROBE: &str = r#"
said=$(timeout 20 sinfo --version 2>&1); code=$?
echo "@@version $code"; printf '%s\n' "$said" | sed 's/^/ /'
said=$(timeout 20 sinfo -h -o '%R|%a|%l|%D' 2>&1); code=$?
echo "@@partitions $code"; printf '%s\n' "$said" | sed 's/^/ /'
said=$(timeout 20 sinfo -h -N -O 'NodeList:64,Partition:64,StateLong:32,Gres:128,GresUsed:128' 2>&1); code=$?
echo "@@nodes $code"; printf '%s\n' "$said" | sed 's/^/ /'
"#;
