import type { Readable } from "node:stream";

/**
 * The lines of a watch's answer as they come, except for an incomplete last one. Throws the error of the stream; a caller that
 * leaves the loop ends the stream. It does not use `node:readline`, which also ends a line at U+2028, which a text in JSON may
 * contain, and does not end a stream that its reader leaves.
 */
export async function* linesOf(body: Readable): AsyncGenerator<string, void, undefined> {
  let rest = "";
  for await (const chunk of body.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
