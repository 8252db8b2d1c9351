/** One run of kubectl port-forward, with a kubectl of the test on PATH. */
import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, test } from "node:test";
import { startPortForward } from "../../../../triggers/plugin/port-forward.ts";

let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-kubectl-"));
});

after(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** Resolves to a PATH with that kubectl. */
async function install(script: string): Promise<string> {
  await writeFile(join(folder, "kubectl"), `#!/bin/sh\n${script}\n`);
  await chmod(join(folder, "kubectl"), 0o755);
  return [folder, process.env.PATH].join(delimiter);
}

test("it gets the port that kubectl prints, and ends kubectl", async () => {
  const path = await install('echo "Forwarding from 127.0.0.1:$2 -> 8002"; exec sleep 60');
  const forward = startPortForward(["port-forward", "4711"], path);
  assert.equal(await forward.forwarding, 4_711);
  forward.end();
  assert.equal(await forward.ended, "kubectl port-forward has ended with code null");
});

test("a kubectl that fails has not forwarded, and the last line of its standard error says why, without control characters", async () => {
  const path = await install('echo first >&2; printf "error: \\033[31mno\\n" >&2; exit 1');
  const forward = startPortForward([], path);
  assert.equal(await forward.forwarding, undefined);
  assert.equal(await forward.ended, "error: \\u001b[31mno");
});

test("without a kubectl on PATH it has ended, and says so", async () => {
  const forward = startPortForward([], join(folder, "none"));
  assert.equal(await forward.forwarding, undefined);
  assert.match(await forward.ended, /^kubectl cannot be started: spawn kubectl ENOENT$/);
});
