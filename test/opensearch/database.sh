# The process of a pod: runs its arguments, and writes into the journal of all pods when they start, are to stop, and have
# ended.
note() {
  echo "$1 $$ $(date +%s%3N) $NODE_NAME" >>"$JOURNAL"
}
note start
trap 'note stopping' TERM
"$@" &
child=$!
while
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null
do
  # Without a group of its own the process gets the signal from here.
  kill -TERM "$child" 2>/dev/null
done
note stop
exit "$code"
