import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { writeKubeconfig } from "./configuration.ts";

test("a kubeconfig that is written again while processes read it is whole each time, and nothing else is left beside it", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-test-kubeconfig-"));
  try {
    const [path, caFile] = [join(directory, "kubeconfig"), join(directory, "ca.crt")];
    await writeFile(caFile, "a certificate\n".repeat(100));
    const write = () => writeKubeconfig(path, "https://127.0.0.1:1", "token", caFile);
    await write();
    let isWriting = true;
    const writes = Array.from({ length: 200 }, () => write());
    const written = Promise.all(writes).finally(() => {
      isWriting = false;
    });
    // Read at once, and not by the threads that write: reads of theirs would wait until all is written.
    while (isWriting) {
      assert.equal(JSON.parse(readFileSync(path, "utf8")).users[0].user.token, "token");
      await setImmediate();
    }
    await written;
    assert.deepEqual((await readdir(directory)).sort(), ["ca.crt", "kubeconfig"]);
  } finally {
    await rm(directory, { recursive: true });
  }
});
