import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { after, before, describe, it } from "node:test";
import { linesOf } from "../../controlplane/lines.ts";
import { readOptions } from "../options.ts";
import { parseSize } from "../sizes.ts";
import { faultTable } from "./faults.ts";
import { FaultyProxy } from "./faulty-proxy.ts";

describe("the proxy that causes faults", () => {
  const watchers = new Map<string, ServerResponse>();
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://server");
    const described = `${request.method} ${pathname} ${request.headers.authorization}`;
    if (searchParams.get("watch") !== "true") return void response.end(described);
    response.writeHead(200).flushHeaders();
    watchers.set(pathname.split("/").at(-1) ?? "", response);
  });
  let proxy: FaultyProxy;
  before(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    proxy = await FaultyProxy.start({ url, token: "secret" });
  });
  after(async () => {
    await proxy.close();
    server.closeAllConnections();
    server.close();
  });

  const watch = async (kind: string) => {
    const answer = await fetch(`${proxy.url}/apis/apps/v1/namespaces/x/${kind}?watch=true`);
    assert.ok(answer.body);
    const lines = linesOf(Readable.fromWeb(answer.body))[Symbol.asyncIterator]();
    return async () => (await lines.next()).value as string;
  };
  const emit = (kind: string, word: string) => watchers.get(kind)?.write(`${word}\n`);

  it("delays the open watches of a kind, in order, and neither others nor later ones", async () => {
    const [sets, pods] = [await watch("statefulsets"), await watch("pods")];
    emit("statefulsets", "one");
    assert.equal(await sets(), "one");
    const stillSince = performance.now();
    assert.equal(proxy.standStill("statefulsets", 600), 1);
    assert.equal(proxy.standStill("leases", 600), 0);
    emit("statefulsets", "two");
    emit("statefulsets", "three");
    emit("pods", "at once");
    assert.equal(await pods(), "at once");
    const promptMs = performance.now() - stillSince;
    assert.deepEqual([await sets(), await sets()], ["two", "three"]);
    const lateMs = performance.now() - stillSince;
    assert.ok(promptMs < 500 && lateMs >= 600, `${promptMs} ms and ${lateMs} ms`);
    const fresh = await watch("statefulsets");
    emit("statefulsets", "fresh");
    assert.equal(await fresh(), "fresh");
  });

  it("refuses every request for a while, as an overloaded API server does, and open watches go on", async () => {
    const pods = await watch("pods");
    proxy.refuse(300);
    const refused = await fetch(`${proxy.url}/api/v1/pods`);
    assert.deepEqual([refused.status, refused.headers.get("retry-after")], [429, "1"]);
    assert.equal(((await refused.json()) as { reason: string }).reason, "TooManyRequests");
    emit("pods", "still told");
    assert.equal(await pods(), "still told");
    assert.equal(proxy.refused, 1);
    while ((await fetch(`${proxy.url}/api/v1/pods`)).status === 429);
    const answer = await fetch(`${proxy.url}/api/v1/namespaces/x/pods`, { method: "PATCH", body: "{}" });
    assert.equal(await answer.text(), "PATCH /api/v1/namespaces/x/pods Bearer secret");
  });
});

describe("faults", () => {
  it("can be selected, and unknown ones are refused", () => {
    const reading = readOptions(["faults", "--only", "never-ready,none"]);
    assert.ok(reading.kind === "faults");
    assert.deepEqual(reading.options.parts, ["never-ready", "none"]);
    assert.deepEqual(
      reading.options.sizes.map(({ label }) => label),
      ["3x20"],
    );
    assert.equal(readOptions(["faults", "--only", "storm"]).kind, "wrong");
  });

  it("have a table each with their own trials", () => {
    const size = parseSize("3x20");
    assert.ok(size);
    const failed = { contender: "sluice", size: "3x20", load: 0, figures: undefined, failure: "it ended" } as const;
    const trials = [{ part: "never-ready", ...failed } as const, { part: "none", ...failed } as const];
    const lines = faultTable("never-ready", size, ["sluice"], trials).split("\n");
    assert.match(lines[0] ?? "", /^A pod of the last zone never becomes Ready.*the limit is 12 s$/);
    assert.match(lines.at(-1) ?? "", /trials that ended +0 of 1/);
  });
});
