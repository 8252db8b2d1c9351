# The process of a pod: runs its arguments, and writes into the journal of all pods when they start, are to stop, and have
# ended.
echo "start $$ $NODE_NAME" >>"$JOURNAL"
trap 'echo "stopping $$ $NODE_NAME" >>"$JOURNAL"' TERM
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
echo "stop $$ $NODE_NAME" >>"$JOURNAL"
exit "$code"
