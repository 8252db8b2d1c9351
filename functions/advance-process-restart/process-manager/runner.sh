#!/bin/sh
# The runner: PID 1 of the database's container. It starts the image's own command, which is its arguments, with one
# set of files, and stops and starts it as the server of the pod asks through a file. README.md says what it promises
# and what its settings are. It needs a POSIX shell and the usual small tools of an image. Two more are used where the
# image has them: setsid, so that a signal reaches all that the process has started, and sha256sum, to name the files.

set -u

state_folder=${SLUICE_STATE:-/sluice/state}
files=${SLUICE_FILES:-/sluice/files}
mounted=${SLUICE_MOUNTED:-/sluice/mounted}
link_into=${SLUICE_LINK_INTO:-}
pre_start=${SLUICE_PRE_START:-}
pre_stop=${SLUICE_PRE_STOP:-}

# number NAME TEXT DEFAULT: sets `value`.
number() {
  value=$2
  case $2 in
    '' | *[!0-9]* | 0?* | ??????????*)
      [ -z "$2" ] || note "$1 is no whole number of seconds, so $3 is taken"
      value=$3
      ;;
  esac
}

note() { printf 'sluice-runner: %s\n' "$1" >&2; }

refuse() {
  note "$1"
  exit 2
}

# --- processes

# read_stat PID: sets the fields of a process; false if there is none. Its name may contain blanks and parentheses.
read_stat() {
  read -r line <"/proc/$1/stat" || return 1
  # shellcheck disable=SC2086 # numbers
  set -- ${line##*) }
  [ $# -ge 20 ] || return 1
  run_state=$1 parent=$2 group=$3 session=$4 threads=${18} start_time=${20}
} 2>/dev/null

# The main thread of a process may have ended while others still run.
is_zombie() {
  case $run_state in
    Z | X) [ "$threads" -le 1 ] ;;
    *) return 1 ;;
  esac
}

is_running() {
  [ -n "$child" ] && read_stat "$child" && [ "$start_time" = "$child_time" ] && ! is_zombie
}

# Of the process that read_stat has read. What the kubelet runs in a container descends from no process of it.
descends_from_runner() {
  while [ "$parent" -gt 1 ]; do read_stat "$parent" || return 0; done
  [ "$parent" -eq 1 ]
}

is_of_child() {
  if [ "$1" = "$child" ]; then return 0; fi
  if [ -n "$leads" ] && { [ "$group" = "$child" ] || [ "$session" = "$child" ]; }; then return 0; fi
  [ $$ -eq 1 ] && [ "$1" -ne 1 ] && descends_from_runner
}

# True while the process, or anything that it has started, is there: it may still have the lock of the data.
is_anything_left() {
  for entry in /proc/[0-9]*; do
    other=${entry#/proc/}
    read_stat "$other" || continue
    is_zombie && continue
    is_of_child "$other" && return 0
  done
  return 1
}

# send SIGNAL: to the process and to what it has started, as far as they can be reached.
send() {
  [ -n "$child" ] || return 0
  if [ $$ -eq 1 ] && { [ -z "$leads" ] || [ "$1" = KILL ]; }; then
    kill "-$1" -1
  elif [ -z "$leads" ] || ! kill "-$1" "-$child"; then
    # A process that has just been started does not lead its group yet.
    kill "-$1" "$child"
  fi
} 2>/dev/null

# --- state

beat() {
  beats=$((beats + 1))
  printf '%s\n' "$beats" >"$files/beat"
} 2>/dev/null

# At most a second, in which a signal is handled at once.
nap() {
  beat
  sleep 1 &
  napper=$!
  wait "$napper" 2>/dev/null
  kill "$napper" 2>/dev/null
}

# save STATE: the file is replaced as a whole.
save() {
  state=$1
  set -- "$state" "$handled" "$attempts" "$sum" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "${child:--}" "$process_id"
  if ! { printf '%s\n' "$*" >"$state_folder/runner.new" && mv -f "$state_folder/runner.new" "$state_folder/runner"; }; then
    note "$state_folder cannot be written, so the server does not learn that the process is $state"
  fi
}

# Of the last runner of this pod.
read_state() {
  state=waiting handled=- attempts=0 sum=- process_id=-
  read -r state handled attempts sum _ _ process_id <"$state_folder/runner" || return 1
} 2>/dev/null

# What the server asks. Without a command the process is wanted.
read_command() {
  verb='' epoch=- asked_sum=-
  read -r verb epoch asked_sum <"$state_folder/command"
  case $verb in stop | kill | start) ;; *) verb='' ;; esac
} 2>/dev/null

is_parked() { [ "$verb" = stop ] || [ "$verb" = kill ]; }

# True when what is prepared is no longer wanted.
is_overtaken() {
  [ -n "$leaving" ] && return 0
  read_command
  is_parked || { [ "$verb" = start ] && [ "$epoch" != "$handled" ]; }
}

# --- files

# folder_of SUM: sets `folder`. Some programs take no path with a colon.
folder_of() {
  case $1 in
    *:*) folder=${1%%:*}-${1#*:} ;;
    *) folder=$1 ;;
  esac
}

# Sets `names`, without the links and folders of the kubelet. Keys of a Secret have no blanks.
# shellcheck disable=SC2012
list_names() { names=$(ls -A "$1" | LC_ALL=C sort | grep -v '^\.\.'); }

resolve_mounted() { (cd -P "$mounted/..data" 2>/dev/null && pwd -P) || printf '%s\n' "$mounted"; }

# Sets `sum`, as the server computes it.
sum_files() {
  sum=unknown
  command -v sha256sum >/dev/null || return 0
  hex=$(
    for name in $names; do
      printf '%s\0%d\0' "$name" "$(($(wc -c <"$1/$name")))"
      cat "$1/$name"
    done | sha256sum
  ) || return 1
  sum=1:${hex%% *}
}

# Copies the mounted files of one moment, and sets `sum` and `folder`. False when there are none, or others came meanwhile.
copy_mounted() {
  from=$(resolve_mounted)
  list_names "$from" || return 1
  new=$files/new
  rm -rf "$new"
  (
    umask 007
    mkdir "$new" || exit 1
    for name in $names; do cp "$from/$name" "$new/$name" || exit 1; done
  ) || return 1
  sum_files "$new" && [ "$(resolve_mounted)" = "$from" ] || return 1
  folder_of "$sum"
  # The server may have kept the same files by now.
  if [ "$sum" != unknown ] && [ -d "$files/$folder" ]; then return 0; fi
  rm -rf "${files:?}/$folder"
  mv "$new" "$files/$folder"
}

# Finds the files of `wanted`, which the server has kept or brings, or else copies those that are mounted. Sets `sum` and
# `folder`, which is empty where no file is ours. False when it is overtaken.
choose_files() {
  folder=
  if [ "$wanted" != - ]; then
    folder_of "$wanted"
    sum=$wanted
    naps=0
    while [ ! -d "$files/$folder" ] && [ "$naps" -lt "$files_for" ] && [ "$wanted" != unknown ]; do
      is_overtaken && return 1
      nap
      naps=$((naps + 1))
    done
    [ -d "$files/$folder" ] && return 0
    note "no files of the sum $wanted came within $files_for s, so the mounted ones are taken"
  fi
  folder='' sum=-
  if [ ! -d "$mounted" ]; then return 0; fi
  until copy_mounted; do
    is_overtaken && return 1
    nap
  done
}

link_files() {
  [ -n "$folder" ] || return 0
  rm -f "$files/current" && ln -s "$folder" "$files/current" || return 1
  [ -n "$link_into" ] || return 0
  if [ -e "$state_folder/linked" ]; then
    while read -r name; do [ ! -L "$link_into/$name" ] || rm -f "$link_into/$name"; done <"$state_folder/linked"
  fi
  list_names "$files/$folder"
  printf '%s\n' "$names" >"$state_folder/linked" || return 1
  for name in $names; do
    rm -f "$link_into/$name" && ln -s "$files/current/$name" "$link_into/$name" || return 1
  done
}

# --- starting and stopping

# run_hook TEXT: its status. It is ended early when `is_cut` says so.
run_hook() {
  [ -n "$1" ] || return 0
  (
    set +u
    eval "$1"
  ) &
  hook=$!
  while read_stat "$hook" && ! is_zombie; do
    if "$2"; then kill -KILL "$hook" 2>/dev/null; fi
    nap
  done
  wait "$hook" 2>/dev/null
}

# A stop is not to wait for its hook when the process is gone, or is to be killed.
is_stop_cut() {
  [ -n "$leaving" ] && return 0
  is_running || return 0
  read_command
  [ "$verb" = kill ]
}

fail_start() {
  note "$1"
  save startFailed
  exit "$2"
}

start_process() {
  if [ "$verb" = start ] && [ "$epoch" != "$handled" ]; then
    handled=$epoch attempts=0 wanted=$asked_sum
    # Without a sum it starts with the files that it had.
    [ "$wanted" != - ] || wanted=$sum
  else
    wanted=$sum
  fi
  # A command that is noted as read needs its sum beside it: a runner that is killed now leaves both to the next one.
  attempts=$((attempts + 1)) sum=$wanted
  save waiting
  if ! choose_files; then
    attempts=$((attempts - 1)) sum=$wanted
    return
  fi
  [ "$sum" = "$wanted" ] || save waiting
  link_files || fail_start 'the files cannot be linked' 1
  run_hook "$pre_start" is_overtaken
  code=$?
  if is_overtaken; then return; fi
  [ "$code" -eq 0 ] || fail_start "SLUICE_PRE_START failed with code $code" "$code"
  if [ -n "$setsid" ]; then setsid "$@" & else "$@" & fi
  child=$! leads=$setsid child_time=0
  if read_stat "$child"; then child_time=$start_time; fi
  process_id=$boot.$child.$child_time
  save started
  watch_process
}

# Until it has ended. It ends the runner, unless the server has asked for that.
watch_process() {
  while is_running; do
    read_command
    if [ -n "$leaving" ]; then
      [ "$state" = stopping ] || save stopping
    elif is_parked; then
      stop_process
      return
    elif [ -n "$verb" ] && [ "$epoch" != "$handled" ]; then
      handled=$epoch
      save started
    fi
    nap
  done
  wait "$child"
  code=$?
  child=
  if [ -n "$leaving" ]; then save waiting; else save failed; fi
  exit "$code"
}

stop_process() {
  asked=$verb handled=$epoch
  if [ "$asked" = stop ]; then
    save stopping
    run_hook "$pre_stop" is_stop_cut
    read_command
  fi
  signalled=
  while is_anything_left; do
    if [ "$verb" = kill ] && { [ "$asked" != kill ] || [ "$handled" != "$epoch" ] || [ -z "$signalled" ]; }; then
      asked=kill handled=$epoch signalled=
      save killing
    fi
    # What is being killed may still start something.
    if [ -z "$signalled" ] || [ "$asked" = kill ]; then
      if [ "$asked" = kill ]; then send KILL || save killFailed; else send TERM || save stopFailed; fi
      signalled=yes
    fi
    nap
    read_command
  done
  wait "$child" 2>/dev/null
  child=
  if [ "$asked" = kill ]; then save killed; else save stopped; fi
}

# The process stays down until it is asked for.
stay_stopped() {
  case $state in
    stopped | killed) ;;
    *) if [ "$verb" = kill ]; then state=killed; else state=stopped; fi ;;
  esac
  handled=$epoch child=
  save "$state"
  while [ -z "$leaving" ]; do
    nap
    read_command
    is_parked || return
    if [ "$epoch" != "$handled" ]; then
      handled=$epoch
      save "$state"
    fi
  done
  exit 0
}

# A process may outlive a runner that was killed, where another process is PID 1.
end_outlived() {
  rest=${process_id#"$boot".}
  [ "$rest" != "$process_id" ] || return 0
  child=${rest%.*} child_time=${rest#*.} leads=$setsid
  if is_running; then note "the process $child outlived its runner, and is stopped"; fi
  while is_running; do
    send TERM
    nap
  done
  child=
}

# alive CHECK: true while the process is down or starts, or else what the check says.
alive() {
  if [ "${1:-}" = -- ]; then shift; fi
  [ $# -gt 0 ] || refuse 'alive needs a check: runner.sh alive -- CHECK'
  if read_state && [ "$state" != started ]; then exit 0; fi
  "$@"
  code=$?
  if [ "$code" -eq 0 ]; then
    printf '%s\n' "$process_id" >"$files/alive"
    exit 0
  fi
  seen=
  if [ -r "$files/alive" ]; then read -r seen <"$files/alive"; fi
  [ "$seen" != "$process_id" ] || exit "$code"
  # It starts until the check has been true once. The kernel counts in hundredths of a second.
  number SLUICE_START_SECONDS "${SLUICE_START_SECONDS:-}" 300
  read -r uptime _ </proc/uptime
  [ $((${uptime%%.*} - ${process_id##*.} / 100)) -ge "$value" ] || exit 0
  exit "$code"
}

if [ "${1:-}" = alive ]; then
  shift
  alive "$@"
fi
[ $# -gt 0 ] || refuse 'the command to run is missing: give that of the image as arguments'
for folder in "$state_folder" "$files"; do
  if [ ! -d "$folder" ] || [ ! -w "$folder" ]; then refuse "$folder is no folder that can be written"; fi
done
number SLUICE_FILES_SECONDS "${SLUICE_FILES_SECONDS:-}" 60
files_for=$value
read -r boot </proc/sys/kernel/random/boot_id
boot=${boot%%-*}
child='' leads='' leaving='' beats=0
setsid=$(command -v setsid)
read_state
# INT is handed on as TERM, because some shells leave it ignored in what they start.
trap 'leaving=yes; send TERM' TERM INT
for signal in HUP QUIT USR1 USR2; do
  # shellcheck disable=SC2064 # the name of now
  trap "send $signal" "$signal"
done
end_outlived
while :; do
  [ -z "$leaving" ] || exit 143
  read_command
  if is_parked; then stay_stopped; else start_process "$@"; fi
done
