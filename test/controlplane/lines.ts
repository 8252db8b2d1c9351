import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

/**
 * The lines of a watch's answer as they come. Throws what breaks the stream; whoever leaves the loop ends it. It is for objects
 * of tests alone: `node:readline` takes U+2028 for the end of a line, too, which a text in JSON may hold.
 */
export async function* linesOf(body: Readable): AsyncGenerator<string, void, undefined> {
  // Whoever reads hears of an error; afterwards nobody listens.
  body.on("error", () => {});
  try {
    yield* createInterface({ input: body });
  } finally {
    body.destroy();
  }
}
