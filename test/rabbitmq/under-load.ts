/** Publishers and consumers work while nodes go and come back; checks what a quorum queue promises them. */
import assert from "node:assert/strict";
import { queue, seconds, size } from "./broker.ts";
import type { Nodes } from "./nodes.ts";
import { Sampler } from "./sampler.ts";
import { Traffic } from "./traffic.ts";

const messages = 10_000;

/**
 * Runs `work` while the queue holds 10,000 messages and is published to and consumed from. Asserts that no confirmed message
 * is lost, and that the queue never lacks its majority. Resolves to a summary.
 */
export async function underLoad(nodes: Nodes, work: () => Promise<void>): Promise<string> {
  const traffic = new Traffic(nodes.addresses, queue);
  const sampler = new Sampler(nodes, queue);
  try {
    await traffic.fill(messages);
    assert.equal(traffic.confirmed, messages);
    traffic.start(2, 2);
    sampler.start();
    await work();
    const samples = await sampler.stop();
    await traffic.finish(120_000);
    assert.deepEqual(traffic.missing, []);
    assert.ok(traffic.confirmed > messages + 50, `${traffic.confirmed} confirmed: no client published meanwhile`);
    assert.ok(samples.leastOnline >= 2 && samples.leastServing >= 2, JSON.stringify(samples));
    assert.ok(samples.taken >= 20 && samples.answered >= samples.taken / 2, JSON.stringify(samples));
    assert.ok(samples.mostOnline === size && samples.leastOnline < size, "what samples cannot see they cannot prove");
    return (
      `${traffic.confirmed} confirmed, ${traffic.unconfirmed} not, ${traffic.deliveries} ` +
      `deliveries, longest time without a confirm ${seconds(traffic.longestGapMs)}; ${JSON.stringify(samples)}`
    );
  } finally {
    await sampler.stop();
    traffic.close();
  }
}
