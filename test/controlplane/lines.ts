import type { Readable } from "node:stream";

/**
 * The lines of a watch's answer as they come, but for a last one that broke off. Throws what breaks the stream; a caller that
 * leaves the loop ends it. It is done by hand: `node:readline` ends a line at U+2028 too, which a text in JSON may hold, and
 * does not end a stream that its reader leaves.
 */
export async function* linesOf(body: Readable): AsyncGenerator<string, void, undefined> {
  let rest = "";
  for await (const chunk of body.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
