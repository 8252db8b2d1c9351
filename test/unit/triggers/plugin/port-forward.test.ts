/** One run of kubectl port-forward, with a kubectl of the test on PATH. */
import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, test } from "node:test";
import { startPortForward } from "../../../../triggers/plugin/port-forward.ts";

let folder: string;
const path = process.env.PATH;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-kubectl-"));
});

after(async () => {
  process.env.PATH = path;
  await rm(folder, { recursive: true, force: true });
});

async function install(script: string): Promise<void> {
  await writeFile(join(folder, "kubectl"), `#!/bin/sh\n${script}\n`);
  await chmod(join(folder, "kubectl"), 0o755);
  process.env.PATH = [folder, path].join(delimiter);
}

test("it gets the port that kubectl prints, and ends kubectl", async () => {
  await install('echo "Forwarding from 127.0.0.1:$2 -> 8002"; exec sleep 60');
  const forward = startPortForward(["port-forward", "4711"]);
  assert.equal(await forward.forwarding, 4_711);
  forward.end();
  assert.equal(await forward.ended, "kubectl port-forward has ended with code null");
});

test("a kubectl that fails has not forwarded, and the last line of its standard error says why, without control characters", async () => {
  await install('echo first >&2; printf "error: \\033[31mno\\n" >&2; exit 1');
  const forward = startPortForward([]);
  assert.equal(await forward.forwarding, undefined);
  assert.equal(await forward.ended, "error: \\u001b[31mno");
});

test("without a kubectl on PATH it has ended, and says so", async () => {
  process.env.PATH = join(folder, "none");
  const forward = startPortForward([]);
  assert.equal(await forward.forwarding, undefined);
  assert.match(await forward.ended, /^kubectl cannot be started: spawn kubectl ENOENT$/);
});
