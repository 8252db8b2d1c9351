/**
 * What the image runs: the bundle of the function that FUNCTION names, or the one of all of them. There is no shell in the image
 * that could choose.
 */
import { startServer } from "./scripts.ts";

startServer(import.meta.dirname);

// A process that watches lives long and keeps what it has received: its heap may grow by a fifth before it is cleared.
// As a flag on the command line this would make a start slower: Node would not take the compiled code of its own modules.
// V8 guesses high what the first heap may grow to. So it is cleared once, when as a rule the first lists have been read.
if (process.env.VIEWS !== "list") {
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  setFlagsFromString("--heap-growing-percent=20");
  setFlagsFromString("--expose-gc");
  const clearHeap = process.getBuiltinModule("node:vm").runInNewContext("gc") as () => void;
  setTimeout(clearHeap, 1_000).unref();
}
