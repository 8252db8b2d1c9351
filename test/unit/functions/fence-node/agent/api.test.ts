/** The requests of the agent, as a server sees them, and what it makes of answers. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { HttpsApi } from "../../../../../functions/fence-node/agent/api.ts";
import { createAuthority } from "../../../../support/certificates.ts";
import { key } from "./world.ts";

const timeoutMs = 20_000;
const leases = "/apis/coordination.k8s.io/v1/namespaces/fencing/leases";
const metadata = { name: "agent-node-1", uid: "u", resourceVersion: "7", annotations: { [key("agent-mode")]: "x" } };
const lease = { uid: "u", resourceVersion: "7", annotations: metadata.annotations };

suite("the agent's requests", () => {
  let server: Server;
  let folder: string;
  let api: HttpsApi;
  let answer: (response: ServerResponse) => void;
  const requests: {
    method: string | undefined;
    url: string | undefined;
    headers: IncomingMessage["headers"];
    body: string;
  }[] = [];

  before(async () => {
    const authority = await createAuthority();
    const issued = await authority.issue();
    server = createServer({ cert: issued.cert, key: issued.key }, async (request, response) => {
      const { method, url, headers } = request;
      requests.push({ method, url, headers, body: (await Array.fromAsync(request)).join("") });
      answer(response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    folder = mkdtempSync(join(tmpdir(), "sluice-agent-"));
    writeFileSync(join(folder, "token"), "first\n");
    writeFileSync(join(folder, "ca.crt"), authority.cert);
    const { port } = server.address() as AddressInfo;
    api = new HttpsApi({ host: "localhost", port, credentials: folder, namespace: "fencing", node: "node-1" });
  });

  /** Each test begins without requests, and with a server that answers with the Lease. */
  const begin = (): void => {
    requests.length = 0;
    answer = (response) => response.end(JSON.stringify({ metadata }));
  };

  after(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true });
  });

  test("the Lease is read, made, and changed on condition of its uid and resourceVersion", async () => {
    begin();
    assert.deepEqual(await api.readLease(timeoutMs), { status: 200, message: "", value: lease });
    assert.deepEqual((await api.createLease({ a: "1" }, timeoutMs)).value, lease);
    assert.deepEqual((await api.patchLease(lease, { a: "2" }, timeoutMs)).value, lease);
    assert.deepEqual(
      requests.map(({ method, url, headers }) => [method, url, headers["content-type"]]),
      [
        ["GET", `${leases}/agent-node-1`, undefined],
        ["POST", leases, "application/json"],
        ["PATCH", `${leases}/agent-node-1`, "application/merge-patch+json"],
      ],
    );
    assert.deepEqual(JSON.parse(requests[1]?.body ?? ""), {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: "agent-node-1", annotations: { a: "1" } },
      spec: { holderIdentity: "node-1" },
    });
    const { uid, resourceVersion } = lease;
    assert.deepEqual(JSON.parse(requests[2]?.body ?? ""), {
      metadata: { uid, resourceVersion, annotations: { a: "2" } },
    });
  });

  test("the taint of a fence is read from the Node", async () => {
    begin();
    for (const [spec, found] of [
      [{ taints: [{ key: "sluice.dev/fence", effect: "NoSchedule" }] }, true],
      [{ taints: [] }, false],
      [{}, false],
      [undefined, false],
      [{ taints: "rubbish" }, undefined],
    ] as const) {
      answer = (response) => response.end(JSON.stringify({ spec }));
      assert.equal((await api.readNodeTaint(timeoutMs)).value, found);
    }
    assert.equal(requests[0]?.url, "/api/v1/nodes/node-1");
  });

  test("the Lease and the taint of another node are read for a peer", async () => {
    begin();
    assert.deepEqual(await api.readLeaseOf("node-2", timeoutMs), { status: 200, message: "", value: lease });
    answer = (response) =>
      response.end(JSON.stringify({ spec: { taints: [{ key: "sluice.dev/fence", effect: "NoSchedule" }] } }));
    assert.deepEqual(await api.readTaintOf("node-2", timeoutMs), { status: 200, message: "", value: true });
    assert.deepEqual(
      requests.map(({ method, url }) => [method, url]),
      [
        ["GET", `${leases}/agent-node-2`],
        ["GET", "/api/v1/nodes/node-2"],
      ],
    );
  });

  test("reads for peers that get no answer keep no request of the agent itself waiting", async () => {
    begin();
    const stalled: ServerResponse[] = [];
    answer = (response) => {
      if (response.req.url === `${leases}/agent-node-1`) response.end(JSON.stringify({ metadata }));
      else stalled.push(response);
    };
    const reads = Array.from({ length: 8 }, () => api.readLeaseOf("node-2", timeoutMs));
    while (stalled.length < 2) await new Promise((resolve) => setImmediate(resolve));
    assert.equal((await api.readLease(2_000)).status, 200);
    assert.equal(stalled.length, 2, "the other reads wait for a connection");
    answer = (response) => response.end("{}");
    for (const response of stalled) response.end("{}");
    assert.equal((await Promise.all(reads)).length, 8);
  });

  test("a request that waits for a connection also ends in time", async () => {
    begin();
    const stalled: ServerResponse[] = [];
    answer = (response) => stalled.push(response);
    const reads = [api.readLeaseOf("node-2", timeoutMs), api.readLeaseOf("node-3", timeoutMs)];
    while (stalled.length < 2) await new Promise((resolve) => setImmediate(resolve));
    assert.equal((await api.readTaintOf("node-4", 100)).message, "no answer within 100 ms");
    for (const response of stalled) response.end("{}");
    await Promise.all(reads);
  });

  test("the token file is read for each request, and a missing one is an answer without a status", async () => {
    begin();
    await api.readLease(timeoutMs);
    writeFileSync(join(folder, "token"), "second");
    await api.readLease(timeoutMs);
    assert.deepEqual(
      requests.map(({ headers }) => headers.authorization),
      ["Bearer first", "Bearer second"],
    );
    rmSync(join(folder, "token"));
    const { status, message } = await api.readLease(timeoutMs);
    writeFileSync(join(folder, "token"), "first");
    assert.equal(status, 0);
    assert.match(message, /ENOENT/);
  });

  test("a refusal keeps its status and its message", async () => {
    begin();
    answer = (response) => {
      response.statusCode = 409;
      response.end(JSON.stringify({ message: "the object has been modified" }));
    };
    assert.deepEqual(await api.patchLease(lease, {}, timeoutMs), {
      status: 409,
      message: "the object has been modified",
      value: undefined,
    });
    answer = (response) => {
      response.statusCode = 503;
      response.end("x".repeat(1_000));
    };
    assert.equal((await api.readLease(timeoutMs)).message.length, 300);
  });

  test("what is no Lease is no answer", async () => {
    begin();
    for (const text of [
      "",
      "x",
      "[]",
      "{}",
      '{"metadata":{"uid":"u"}}',
      '{"metadata":{"uid":1,"resourceVersion":"1"}}',
    ]) {
      answer = (response) => response.end(text);
      const { status, value } = await api.readLease(timeoutMs);
      assert.deepEqual([status, value], [0, undefined], text);
    }
  });

  test("annotations that are no text are left out", async () => {
    begin();
    answer = (response) => response.end(JSON.stringify({ metadata: { ...metadata, annotations: { a: 1, b: "x" } } }));
    assert.deepEqual((await api.readLease(timeoutMs)).value?.annotations, { b: "x" });
    answer = (response) => response.end(JSON.stringify({ metadata: { ...metadata, annotations: "x" } }));
    assert.deepEqual((await api.readLease(timeoutMs)).value?.annotations, {});
  });

  test("an answer of more than 4 MiB is given up", async () => {
    begin();
    answer = (response) => response.end("x".repeat(5 * 1024 * 1024));
    const { status, message } = await api.readLease(timeoutMs);
    assert.equal(status, 0);
    assert.match(message, /more than 4194304 bytes/);
  });

  test("an answer that does not come, or stops in its middle, is given up in time", async () => {
    begin();
    for (const start of ["", '{"metadata":']) {
      answer = (response) => response.write(start);
      assert.deepEqual(await api.readLease(100), { status: 0, message: "no answer within 100 ms", value: undefined });
    }
  });

  /** Another agent, which trusts this authority alone. */
  function trusting(authority: string, port: number): HttpsApi {
    const own = mkdtempSync(join(folder, "other-"));
    writeFileSync(join(own, "token"), "first");
    writeFileSync(join(own, "ca.crt"), authority);
    return new HttpsApi({ host: "localhost", port, credentials: own, namespace: "fencing", node: "node-1" });
  }

  test("a server whose certificate another authority has signed is not believed", async () => {
    begin();
    const other = await createAuthority();
    const { port } = server.address() as AddressInfo;
    const { status } = await trusting(other.cert, port).readLease(timeoutMs);
    assert.equal(status, 0);
    assert.equal(requests.length, 0);
  });

  test("while the clock of the node is behind the certificate of the server, no answer comes, and the message says so", async () => {
    begin();
    const authority = await createAuthority("P-256", 24 * 3_600_000);
    const { cert, key: itsKey } = await authority.issue();
    const later = createServer({ cert, key: itsKey }, (_, response) => answer(response));
    await new Promise<void>((resolve) => later.listen(0, "127.0.0.1", resolve));
    const { port } = later.address() as AddressInfo;
    const { status, message } = await trusting(authority.cert, port).readLease(timeoutMs);
    later.close();
    assert.equal(status, 0);
    assert.match(message, /certificate is not yet valid/);
  });
});
