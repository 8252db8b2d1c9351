import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { launch } from "../../controlplane/processes.ts";

test("npm run knative says each mistake of its command line on a line, and ends with 2", async () => {
  const args = ["--overlay", "tree", "--port", "x", "--stable-window", "0", "now", "--dir"];
  const launched = launch(process.execPath, [join(import.meta.dirname, "main.ts"), ...args], { output: "pipe" });
  assert.equal((await launched.ended).code, 2);
  assert.deepEqual(launched.printed().stderr.trim().split("\n").sort(), [
    "--dir: needs a value",
    "--overlay tree: must be direct or broker",
    "--port x: must be a whole number from 0 to 65535",
    "--stable-window 0: must be a whole number from 15 to 3600",
    "now: not a flag; see --help",
  ]);
});
