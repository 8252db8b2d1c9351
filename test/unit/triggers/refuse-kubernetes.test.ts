/** On which versions of Kubernetes a process does not start. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { refuseKubernetes } from "../../../triggers/refuse-kubernetes.ts";
import { table } from "../../../triggers/table.ts";
import { kubeconfigText } from "../../support/kubeconfig.ts";
import { launchServer } from "../../support/server.ts";

const two = [{ name: "any" }, { name: "fence", leastKubernetes: "1.32" }] as const;

suite("a function that needs a version of Kubernetes", () => {
  test("an older version is refused by a message that has both versions, and the needed version or a newer one is not", () => {
    assert.deepEqual(refuseKubernetes(two, { major: "1", minor: "31" }), [
      "fence needs Kubernetes 1.32 or newer, and the API server is of version 1.31: it does not start",
    ]);
    for (const minor of ["9", "30+"]) assert.equal(refuseKubernetes(two, { major: "1", minor }).length, 1, minor);
    for (const minor of ["32", "32+", "33", "100"]) assert.deepEqual(refuseKubernetes(two, { major: "1", minor }), []);
    assert.deepEqual(refuseKubernetes([{ name: "any" }], { major: "1", minor: "9" }), []);
  });

  test("a version that is malformed or missing counts as too old", () => {
    for (const version of [
      {},
      { major: "1" },
      { major: "1", minor: "" },
      { major: "2", minor: "40" },
      { major: "1", minor: "4x" },
    ])
      assert.equal(refuseKubernetes(two, version).length, 1, JSON.stringify(version));
  });

  test("fencing needs 1.32, which first names the node in the token of a pod; no standard function needs any", () => {
    const needing = table.filter(({ leastKubernetes }) => leastKubernetes !== undefined);
    assert.deepEqual(
      needing.map(({ isOptIn, leastKubernetes }) => [isOptIn, leastKubernetes]),
      [[true, "1.32"]],
    );
  });

  test("a process waits for an API server that does not answer yet, and then ends with code 1 on one that is too old", async () => {
    // A call is tried again several times before it fails, and the process then begins another one.
    const { code, stdout, stderr } = await endOn((asked) => (asked < 8 ? 503 : 200));
    assert.equal(code, 1, stdout);
    assert.match(
      stderr,
      /^sluice: fence-node needs Kubernetes 1\.32 or newer, and .* of version 1\.31: it does not start\n$/,
    );
    assert.ok(stdout.includes("the API server does not answer") && !stdout.includes("listening on port"), stdout);
  });

  test("a process ends with code 1 where the API server does not let it read the version", async () => {
    const { code, stdout, stderr } = await endOn(() => 403);
    assert.equal(code, 1, stdout);
    assert.match(stderr, /^sluice: the API server does not report its version: .+\n$/);
  });
});

/** How a process ends on an API server of version 1.31. @param statusOf the status of its answer to each request, from 1 on */
async function endOn(statusOf: (asked: number) => number) {
  let asked = 0;
  const server = createServer((_, response) => {
    response.writeHead(statusOf(++asked), { "content-type": "application/json" });
    response.end(JSON.stringify({ major: "1", minor: "31" }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const folder = await mkdtemp(join(tmpdir(), "sluice-version-"));
  const kubeconfig = join(folder, "kubeconfig");
  const { port } = server.address() as AddressInfo;
  await writeFile(kubeconfig, kubeconfigText(`http://127.0.0.1:${port}`, {}));
  const settings = { FUNCTION: "fence-node", KUBERNETES_TIMEOUT: "1s" };
  const launched = launchServer({ kubeconfig, namespace: "default", settings });
  const { code } = await launched.ended;
  server.close();
  await rm(folder, { recursive: true });
  return { code, ...launched.printed() };
}
