#!/bin/sh
# The stop gate: a preStop hook that lets a RabbitMQ node go when no queue loses its majority by that. README.md
# says what it promises, what its settings are, and what each exit code of RabbitMQ's tools means to it. It
# needs a POSIX shell, the usual small tools of an image, and RabbitMQ's own. It exits 0 when the node may go,
# and 1 when it goes although no check said so.

set -u

# --- settings

# number NAME DEFAULT: sets `value`. What is no number of seconds must neither end the gate nor open it.
number() {
  eval "value=\${$1:-$2}"
  case $value in
    *[!0-9]* | 0?* | ??????????*)
      complaints="$complaints $1 is not a whole number of seconds, so $2 is taken."
      value=$2
      ;;
  esac
}

settings() {
  complaints=
  number STOP_GATE_GRACE_SECONDS 604800 && grace=$value
  number STOP_GATE_DRAIN_SECONDS 60 && drain_for=$value
  number STOP_GATE_RESERVE_SECONDS 30 && reserve=$value
  number STOP_GATE_POLL_SECONDS 5 && poll=$value
  number STOP_GATE_CALL_SECONDS 15 && call_for=$value
  number STOP_GATE_UNKNOWN_SECONDS 600 && unknown_for=$value
  number STOP_GATE_SAY_SECONDS 60 && say_every=$value
  [ "$call_for" -gt 0 ] || call_for=1
  skip_files=${STOP_GATE_SKIP_FILES-/etc/pod-info/skipPreStopChecks /dev/shm/skipPreStopChecks /tmp/skipPreStopChecks}
  log=${STOP_GATE_LOG-/proc/1/fd/1}
  report=${STOP_GATE_REPORT-/dev/termination-log}
  on_unknown=${STOP_GATE_ON_UNKNOWN:-wait}
  case $on_unknown in
    wait | release) ;;
    *)
      complaints="$complaints STOP_GATE_ON_UNKNOWN is neither wait nor release, so wait is taken."
      on_unknown='wait'
      ;;
  esac
  if [ $((drain_for + reserve)) -ge "$grace" ]; then
    complaints="$complaints $drain_for s to drain and $reserve s to stop leave nothing of a grace period of"
    complaints="$complaints $grace s, so each gets a third of it."
    drain_for=$((grace / 3))
    reserve=$((grace / 3))
  fi
}

# A folder that can be written. Memory comes first: a node whose disk is full has to be let go, too.
make_folder() {
  folder=
  for parent in /dev/shm "${TMPDIR:-/tmp}" /tmp "${HOME:-/tmp}"; do
    folder=$parent/stop-gate.$$
    if mkdir -m 700 "$folder" 2>/dev/null; then return; fi
  done
  folder=
}

# --- time

# Of the machine, where it can be had: a clock may be set anew, and a week is long. Sets `now`, in seconds.
tell_time() {
  if read -r uptime _ </proc/uptime; then now=${uptime%%.*}; else now=$(date +%s); fi
} 2>/dev/null

# spell SECONDS: sets `spelled`.
spell() {
  if [ "$1" -lt 120 ]; then
    spelled="$1 s"
  elif [ "$1" -lt 7200 ]; then
    spelled="$(($1 / 60)) min"
  elif [ "$1" -lt 172800 ]; then
    spelled="$(($1 / 3600)) h"
  else
    spelled="$(($1 / 86400)) d"
  fi
}

# --- what is said

# put FILE LINE. A pipe is opened for both ways: so it opens even when no process reads it any more.
put() {
  if [ -p "$1" ]; then printf '%s\n' "$2" 1<>"$1"; else printf '%s\n' "$2" >>"$1"; fi
} 2>/dev/null

# Into the container's log, beside the node's own lines. It is written in the background, because a log that
# no process reads must not hold the gate. What cannot be written there goes to the hook's output.
say() {
  line="$(date -u +%Y-%m-%dT%H:%M:%SZ) stop-gate: $1"
  if [ -z "$folder" ] || [ -e "$folder/saying" ] || [ ! -w "$log" ]; then
    printf '%s\n' "$line"
    return
  fi
  : >"$folder/saying"
  (
    # The process that started the hook waits for all that have its output.
    exec >/dev/null 2>&1
    put "$log" "$line" || : >"$folder/unsaid"
    rm -f "$folder/saying"
  ) &
  writer=$!
  patience=10
  while [ -e "$folder/saying" ] && [ "$patience" -gt 0 ]; do
    sleep "$tick"
    patience=$((patience - 1))
  done
  # Where it is not through yet, it stays the last one.
  [ -e "$folder/saying" ] || wait "$writer"
  if [ -e "$folder/unsaid" ]; then
    rm -f "$folder/unsaid"
    printf '%s\n' "$line"
  fi
}

# --- what ends a wait

# True when a file of the marker has something in it. Any text counts, `false` too, as for the operator's hook.
is_marked() {
  for file in $skip_files; do
    if [ -s "$file" ]; then
      marker=$file
      return 0
    fi
  done
  return 1
}

# True when the gate has to stop a wait: the marker is there, or it is `deadline`.
is_interrupted() {
  if is_marked; then return 0; fi
  tell_time
  [ "$now" -ge "$deadline" ]
}

# pause SECONDS: false when it was interrupted.
pause() {
  tell_time
  resume=$((now + $1))
  while [ "$now" -lt "$resume" ]; do
    if is_interrupted; then return 1; fi
    sleep 1
  done
  ! is_interrupted
}

# --- RabbitMQ's tools

# shellcheck disable=SC2016 # The variables are those of the shell that runs it.
in_background='
  "$@" >"$0/text" 2>&1 &
  echo "$!" >"$0/pids"
  wait "$!"
  echo "$?" >"$0/code.part"
  mv "$0/code.part" "$0/code"
'

# call SECONDS COMMAND...: sets `code`, and `text` to the first of what it printed. The tool runs in the
# background, so that a tool that hangs can hold nothing: after SECONDS it is ended, with code 124. False when the
# wait was interrupted, and nothing was learned.
call() {
  limit=$1
  shift
  # A folder for each: a tool that was ended too late must not answer for the next one.
  rm -rf "$folder/call.$calls"
  calls=$((calls + 1))
  files=$folder/call.$calls
  mkdir "$files"
  tell_time
  expiry=$((now + limit))
  # In a group of its own, where the image can, so that a tool's children end with it.
  if command -v setsid >/dev/null 2>&1; then
    setsid sh -c "$in_background" "$files" "$@" </dev/null >/dev/null 2>&1 &
  else
    sh -c "$in_background" "$files" "$@" </dev/null >/dev/null 2>&1 &
  fi
  caller=$!
  while [ ! -e "$files/code" ]; do
    if is_interrupted; then
      end_call
      return 1
    fi
    if [ "$now" -ge "$expiry" ]; then
      end_call
      code=124 text="$1 did not end within $limit s"
      return 0
    fi
    sleep "$tick"
  done
  forget_call
  code=
  read -r code <"$files/code"
  text=$(tr '\n\t' '; ' <"$files/text" | tr -d '\001-\037\177' | tr -s ' ;' | cut -c 1-600)
  text=$(printf '%s' "$text" | sed 's/; *$//; s/; */; /g')
  : "${text:=not a word}"
}

end_call() {
  [ -n "$caller" ] || return
  if [ -e "$files/pids" ]; then
    read -r tool <"$files/pids"
    kill -s KILL "$tool"
  fi
  kill -s KILL -- "-$caller"
  kill -s KILL "$caller"
  forget_call
} 2>/dev/null

# A shell keeps what it knows of each child until it waits for that child, and a week has many polls.
forget_call() {
  wait "$caller"
  caller=''
} 2>/dev/null

# --- the question

unknown() {
  class=no-answer why=$1
}

# ask_twice CLASS: RabbitMQ says 69 of a check that failed, and of a node that it does not reach. What was reached
# before and after was critical in between.
ask_twice() {
  suspicion=$text
  call "$hard_limit" rabbitmq-diagnostics -q ping -t "$call_for" || return 1
  if [ "$code" = 0 ]; then
    class=$1 why=$suspicion
  else
    unknown "the node was reached before the check, and not after it: $text"
  fi
}

# Classic mirrored queues are gone since 4.0, and what asks for them will be.
ask_for_mirrors() {
  if [ -z "$major" ]; then
    call "$hard_limit" rabbitmqctl version || return 1
    case $code/$text in 0/[0-9]*.*) major=${text%%.*} ;; esac
    case $major in *[!0-9]*) major= ;; esac
  fi
  class=passed why="no queue needs this node"
  if [ -n "$major" ] && [ "$major" -ge 4 ]; then return; fi
  call "$hard_limit" rabbitmq-queues -q check_if_node_is_mirror_sync_critical -t "$call_for" || return 1
  case $major/$code in
    */0) class=passed why="no queue needs this node" ;;
    */69) ask_twice mirror-critical || return 1 ;;
    /64) class=passed why="no queue needs this node; the tools know no mirrored queues" ;;
    *) unknown "the check for mirrored queues ended with $code: $text" ;;
  esac
}

# One poll: sets `class` and `why`. False when it was interrupted.
ask() {
  if [ -z "$folder" ]; then
    unknown "no folder can be written, so nothing can be asked"
    return 0
  fi
  call "$hard_limit" rabbitmq-diagnostics -q ping -t "$call_for" || return 1
  ping=$code ping_text=$text
  call "$hard_limit" rabbitmq-queues -q check_if_node_is_quorum_critical -t "$call_for" || return 1
  case $ping/$code in
    */0) ask_for_mirrors || return 1 ;;
    0/69) ask_twice quorum-critical || return 1 ;;
    0/64) ask_whether_it_runs || return 1 ;;
    69/69)
      # A node that hangs and one with another cookie are not reached either, and they may be needed.
      if grep -q 'not running at all' "$files/text" 2>/dev/null; then
        class=node-down why="no such node runs here"
      else
        unknown "the node is not reached, and no tool says that it has ended: $ping_text"
      fi
      ;;
    *) unknown "ping ended with $ping, the check for quorum with $code: $text" ;;
  esac
}

# The tools say 64 of a command that they do not know, and of a node whose application does not run.
ask_whether_it_runs() {
  usage=$text
  call "$hard_limit" rabbitmq-diagnostics -q check_running -t "$call_for" || return 1
  case $code in
    69) class=node-down why="the node runs, and its rabbit application does not" ;;
    *) unknown "the check for quorum ended with 64: $usage" ;;
  esac
}

# --- the gate

# leave CODE OUTCOME SENTENCE
leave() {
  say "$2: $3"
  # Where kubectl shows why a container has ended.
  if [ -n "$report" ] && [ -w "$report" ]; then put "$report" "stop-gate: $2: $3"; fi
  exit "$1"
}

leave_by_marker() {
  leave 0 skip-marker "$marker has the marker, so nothing is asked and nothing is drained"
}

# Clients go elsewhere, and leaders of queues. Whatever it says, the node goes afterwards: that is decided.
drain() {
  drained="it is not drained"
  [ -n "$folder" ] || return
  tell_time
  deadline=$((now + drain_for))
  if call "$drain_for" rabbitmq-upgrade -q drain -t "$drain_for"; then
    case $code in
      0) drained="it is drained" ;;
      69) drained="draining it ended with 69, which released versions also say when it worked" ;;
      *) drained="draining it ended with $code: $text" ;;
    esac
  else
    drained="draining it was cut short"
  fi
}

# Says what it waits for, when that has changed and then once a minute.
tell_wait() {
  tell_time
  if [ "$class" = "$told_class" ] && [ "$now" -lt $((told + say_every)) ]; then return; fi
  told_class=$class told=$now
  spell $((now - started)) && waited=$spelled
  spell $((checks_end - now))
  say "waits ($class) since $waited, for at most another $spelled: $why"
}

# True when `class` is one by which the node may go, or has to.
judge() {
  case $class in
    passed)
      outcome=passed result=0
      return 0
      ;;
    node-down)
      # One answer may be of a moment between two states.
      downs=$((downs + 1))
      outcome=node-down result=0
      [ "$downs" -ge 2 ] && return 0
      ;;
    *) downs=0 ;;
  esac
  if [ "$class" != no-answer ]; then
    unknown_since=
    return 1
  fi
  tell_time
  : "${unknown_since:=$now}"
  outcome=released-unknown result=1
  [ "$on_unknown" = release ] && [ "$now" -ge $((unknown_since + unknown_for)) ]
}

# wait_for_leave: returns when the node may go, or when the time is up; sets `outcome`, `result` and `why`.
wait_for_leave() {
  while ask; do
    if judge; then return; fi
    tell_wait
    pause "$poll" || break
  done
  if is_marked; then leave_by_marker; fi
  outcome=grace-over result=1
  why="its grace period is over, and it goes although the last answer was ($class): $why"
}

# shellcheck disable=SC2317 # The trap calls it.
clean_up() {
  trap - EXIT
  [ -n "$folder" ] || return
  [ -z "$writer" ] || kill -s KILL "$writer" 2>/dev/null
  end_call
  rm -rf "$folder"
}

main() {
  settings
  make_folder
  trap clean_up EXIT
  trap 'exit 143' HUP INT TERM
  if sleep 0.1 2>/dev/null; then tick=0.1; else tick=1; fi
  tell_time
  started=$now checks_end=$((now + grace - drain_for - reserve)) deadline=$checks_end
  # A tool has to start before its own time runs.
  hard_limit=$((call_for + 15))
  major='' class=no-answer why="nothing was asked" told_class='' told=0 downs=0 unknown_since='' marker='' writer='' caller='' calls=0
  [ -z "$complaints" ] || say "settings:$complaints"
  if is_marked; then leave_by_marker; fi
  wait_for_leave
  if [ "$outcome" = node-down ]; then
    drained="there is nothing to drain"
  else
    drain
  fi
  leave "$result" "$outcome" "$why; $drained"
}

main
