import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, test } from "node:test";
import { eventually } from "../../controlplane/api.ts";
import { Activator, type Scaling } from "./activator.ts";

const usual: Scaling = {
  initialScale: 0,
  minScale: 0,
  maxScale: 0,
  containerConcurrency: 0,
  timeoutMs: 10_000,
  stableWindowMs: 100,
};

describe("the activator", () => {
  const closers: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });

  /** Instances answer 204 once they are let. */
  async function start(scaling: Partial<Scaling>) {
    const log: string[] = [];
    const servers: Server[] = [];
    const losses: ((because: string) => void)[] = [];
    const permitted = Promise.withResolvers<void>();
    const activator = await Activator.start({
      scaling: { ...usual, ...scaling },
      log: (message) => void log.push(message),
      async start() {
        const server = createServer(
          (_request, response) => void permitted.promise.then(() => response.writeHead(204).end()),
        );
        servers.push(server);
        server.listen(0, "127.0.0.1");
        await once(server, "listening");
        const lost = Promise.withResolvers<string>();
        losses.push(lost.resolve);
        const end = async (): Promise<void> => {
          server.close();
          server.closeAllConnections();
        };
        return {
          url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
          lost: lost.promise,
          stop: end,
          signal() {},
        };
      },
    });
    closers.push(() => activator.close());
    // Those that were lost, too.
    closers.push(async () => servers.forEach((server) => void server.close()));
    return { activator, log, servers, losses, answer: permitted.resolve };
  }

  const atScale = (activator: Activator, scale: number) =>
    eventually(`${scale} instances`, 10_000, async () => (activator.scale === scale ? true : undefined));

  test("starts nothing before the first request, keeps that request, and ends the instance when there are no more", async () => {
    const { activator, answer } = await start({});
    assert.equal(activator.scale, 0);
    answer();
    assert.equal((await fetch(activator.url)).status, 204);
    assert.equal(activator.starts, 1);
    await atScale(activator, 0);
    assert.equal((await fetch(activator.url)).status, 204);
    assert.equal(activator.starts, 2);
  });

  test("starts initial-scale instances without a request, and ends them when none comes", async () => {
    const { activator } = await start({ initialScale: 2 });
    assert.equal(activator.scale, 2);
    await eventually("both started", 10_000, async () => (activator.instances.length === 2 ? true : undefined));
    await atScale(activator, 0);
    assert.equal(activator.starts, 2);
  });

  test("keeps min-scale instances without a request, and starts one anew that is lost", async () => {
    const { activator, losses } = await start({ minScale: 2 });
    await atScale(activator, 2);
    await eventually("both started", 10_000, async () => (activator.instances.length === 2 ? true : undefined));
    losses[0]?.("killed");
    await atScale(activator, 1);
    await atScale(activator, 2);
    assert.equal(activator.starts, 3);
  });

  test("has an instance for each 70 % of containerConcurrency in flight, and never more than max-scale", async () => {
    const { activator, answer } = await start({ containerConcurrency: 10, maxScale: 3 });
    const under = (count: number) =>
      eventually("all in flight", 10_000, async () => (activator.inFlight === count ? true : undefined));
    const requests = Array.from({ length: 7 }, () => fetch(activator.url));
    await under(7);
    assert.equal(activator.scale, 1);
    requests.push(fetch(activator.url));
    await under(8);
    assert.equal(activator.scale, 2);
    requests.push(...Array.from({ length: 40 }, () => fetch(activator.url)));
    await under(48);
    assert.equal(activator.scale, 3);
    answer();
    for (const { status } of await Promise.all(requests)) assert.equal(status, 204);
    await atScale(activator, 0);
  });

  test("answers 502 when the instance that has the request is gone, and starts another for the next", async () => {
    const { activator, servers, losses, answer } = await start({ stableWindowMs: 60_000 });
    const cut = fetch(activator.url);
    await eventually("the request under way", 10_000, async () =>
      activator.instances.length === 1 ? true : undefined,
    );
    servers[0]?.close();
    servers[0]?.closeAllConnections();
    losses[0]?.("killed");
    assert.equal((await cut).status, 502);
    answer();
    await atScale(activator, 0);
    assert.equal((await fetch(activator.url)).status, 204);
    assert.equal(activator.starts, 2);
  });
});
