/** An agent with peers: when it is armed, what its peers do for its permit, and when isolation resets its node. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  armed,
  armedAgent,
  bootId,
  feeding,
  fenceId,
  key,
  otherBootId,
  times,
  type World,
  watchdogMs,
} from "./world.ts";

const noApi = { verdict: "no-api" } as const;
const modeOf = (world: World) => world.lease?.annotations[key("agent-mode")];
const whyOf = (world: World) => world.lease?.annotations[key("agent-why")];
const peersOf = (world: World) => world.lease?.annotations[key("agent-peers")];
/** How long after the last permit the device is fed for the last time, in seconds. */
const lastFeedAfter = times.permitMs / 1_000;

suite("the mode", () => {
  test("an agent adopts the peers that are proposed once it has drilled them, and is armed then", async () => {
    const { world, agent, list } = await armedAgent();
    assert.equal(peersOf(world), list);
    assert.equal(whyOf(world), "");
    assert.equal(world.memory?.isArmed, true);
    world.drills = 0;
    await world.run(agent, 60);
    assert.equal(world.drills, 3, "one drill a minute");
  });

  test("an agent writes no list that it has not drilled, and is not armed while most peers are silent", async () => {
    const { world, agent } = await feeding();
    const list = world.propose("b", "c", "d");
    await agent.renew();
    assert.equal(peersOf(world), "");
    world.there.delete("b");
    world.there.delete("c");
    await world.run(agent, 15);
    assert.deepEqual([peersOf(world), modeOf(world), whyOf(world)], [list, "explicit-only", "peers-silent"]);
    world.there.add("b");
    await world.run(agent, 65);
    assert.equal(modeOf(world), "armed");
  });

  test("the last three drills count: peers that have been silent since then make the agent explicit-only", async () => {
    const { world, agent } = await armedAgent();
    world.there.clear();
    await world.run(agent, 2 * 60);
    assert.equal(modeOf(world), "armed");
    await world.run(agent, 70);
    assert.deepEqual([modeOf(world), whyOf(world)], ["explicit-only", "peers-silent"]);
    assert.equal(world.memory?.isArmed, false);
  });

  test("a Node that is never fenced, or in maintenance, makes the agent explicit-only", async () => {
    for (const [node, why] of [
      [{ isExcluded: true, isInMaintenance: false }, "never-fenced"],
      [{ isExcluded: false, isInMaintenance: true }, "maintenance"],
    ] as const) {
      const { world, agent } = await armedAgent();
      world.ownNode = node;
      await world.run(agent, 70);
      assert.deepEqual([modeOf(world), whyOf(world)], ["explicit-only", why]);
    }
  });

  test("until the write of another mode is acknowledged the agent behaves as armed, also in the next process", async () => {
    const { world, agent } = await armedAgent();
    world.ownNode = { isExcluded: true, isInMaintenance: false };
    world.refused.patch = 500;
    await world.run(agent, 70);
    assert.equal(modeOf(world), "armed");
    assert.equal(world.memory?.isArmed, true);
    world.cutOff();
    world.takeDevice();
    const successor = world.agent();
    await world.run(successor, 60);
    assert.ok(world.takeDevice().length <= lastFeedAfter + 2, "its permit runs out");
  });

  test("three boots in a row that end while the watchdog runs, each within an hour, make the next one explicit-only until an hour of contact", async () => {
    const { world } = await armedAgent();
    world.history = { bootId: otherBootId, shortBoots: 2, state: "running" };
    world.memory = undefined;
    world.takeDevice();
    const agent = world.agent();
    await world.run(agent, 70);
    assert.deepEqual([modeOf(world), whyOf(world)], ["explicit-only", "short-boots"]);
    assert.equal(world.takeDevice(), "", "an agent that crashes again must not have the machine reset");
    await world.run(agent, 3_600);
    assert.equal(modeOf(world), "armed");
    assert.notEqual(world.takeDevice(), "");
    assert.deepEqual(world.history, { bootId, shortBoots: 0, state: "over" });
  });
});

test("that the watchdog has run in this boot is on the disk before it is opened, because the machine may be reset soon after", async () => {
  const { world } = await armedAgent();
  assert.deepEqual(world.durable, [{ state: "running", device: "" }]);
});

suite("the permit of an armed agent", () => {
  test("without the API server and without peers it runs out after L, and the node is reset", async () => {
    const { world, agent } = await armedAgent();
    const permitMs = world.memory?.permitMs ?? 0;
    world.cutOff();
    const startMs = world.nowMs;
    await world.run(agent, 100);
    const fed = world.takeDevice();
    assert.match(fed, /^\.+$/);
    assert.ok(fed.length <= (permitMs + times.permitMs - startMs) / 1_000 + 1, `${fed.length} feeds`);
    assert.equal(world.resets, 1, "the device of this test never fires, so that the file resets it after 2 W");
    assert.ok(world.nowMs - startMs >= times.permitMs + 2 * watchdogMs);
  });

  test("one peer that has read the Lease renews it", async () => {
    const { world, agent } = await armedAgent();
    world.cutOff();
    world.answer({ verdict: "alive" }, "b");
    await world.run(agent, 200);
    assert.equal(world.takeDevice().length, 200);
  });

  test("most peers without the API server excuse the node, and fewer do not", async () => {
    const { world, agent } = await armedAgent();
    world.cutOff();
    world.answer(noApi, "b", "d");
    await world.run(agent, 200);
    assert.equal(world.takeDevice().length, 200);
    world.answer(noApi, "b");
    await world.run(agent, 100);
    assert.ok(world.takeDevice().length < 60);
  });

  test("a peer that answers unknown, or nothing, counts for nothing", async () => {
    const { world, agent } = await armedAgent();
    world.cutOff();
    world.answer({ verdict: "unknown" }, "b", "c", "d");
    await world.run(agent, 100);
    assert.ok(world.takeDevice().length < 60);
  });

  test("one stop of a peer ends it at once, and no answer renews it any more", async () => {
    const { world, agent } = await armedAgent();
    world.cutOff();
    world.answer({ verdict: "stop", fenceId }, "b");
    world.answers.set("c", { verdict: "alive" });
    await agent.renew();
    await agent.renew();
    world.takeDevice();
    world.answer({ verdict: "alive" }, "b", "c", "d");
    await world.run(agent, 15);
    assert.equal(world.takeDevice(), "");
    assert.equal(world.memory?.armed, armed);
    assert.equal(world.memory?.isTainted, true);
  });

  test("peers are asked once two renewals in a row have failed, and not before", async () => {
    const { world, agent } = await armedAgent();
    world.cutOff();
    await agent.renew();
    assert.equal(world.questions, 0);
    await agent.renew();
    assert.equal(world.questions, 3);
  });

  test("while a new list is not acknowledged, the node needs its excuse in the old list and in the new one", async () => {
    const { world, agent } = await armedAgent();
    world.propose("d", "e", "f");
    await agent.renew();
    await agent.drill();
    world.cutOff();
    world.answer(noApi, "d", "e", "f");
    await agent.renew();
    const permitMs = world.memory?.permitMs;
    await agent.renew();
    assert.equal(world.memory?.permitMs, permitMs, "most of the old list are missing");
    world.answer(noApi, "b", "d", "e", "f");
    await agent.renew();
    assert.notEqual(world.memory?.permitMs, permitMs);
    const successor = world.agent();
    world.answer(noApi, "d", "e", "f");
    world.drills = 0;
    await successor.renew();
    assert.match(world.memory?.wantedPeers ?? "", /^d=/);
    assert.match(world.memory?.peers ?? "", /^b=/, "the next process needs both as well");
  });

  test("what a new Lease may name is remembered before it is sent", async () => {
    const { world, agent } = await armedAgent();
    const list = world.propose("d", "e", "f");
    await agent.renew();
    await agent.drill();
    world.lease = undefined;
    const remembered: (string | undefined)[] = [];
    world.before = (request) => {
      if (request === "create") remembered.push(world.memory?.wantedPeers);
    };
    await agent.renew();
    assert.deepEqual(remembered, [list]);
    assert.equal(peersOf(world), list);
  });

  test("a list that names the node itself, or does not parse, is not adopted", async () => {
    const { world, agent, list } = await armedAgent();
    for (const text of [`node-1=${"0".repeat(16)} ${list}`, "x", `${list} ${list}`]) {
      world.annotate({ [key("agent-peers-proposed")]: text });
      await world.run(agent, 15);
      assert.equal(peersOf(world), list);
    }
  });

  test("a peer whose key is not the listed one is neither asked nor drilled", async () => {
    const { world, agent } = await feeding();
    world.propose("b", "c", "d");
    for (const name of ["b", "c", "d"]) world.peers.set(name, "A".repeat(43));
    await world.run(agent, 15);
    assert.equal(world.drills, 0);
    assert.deepEqual([modeOf(world), whyOf(world)], ["explicit-only", "peers-silent"]);
  });

  test("a process that remembers nothing of its boot is armed once its Lease says so", async () => {
    const { world } = await armedAgent();
    world.memory = undefined;
    const successor = world.agent();
    await successor.renew();
    assert.equal(modeOf(world), "armed");
    world.takeDevice();
    world.cutOff();
    await world.run(successor, 100);
    assert.ok(world.takeDevice().length < 60);
  });

  test("a watchdog that fires later than the Lease has it shortens the permit by twice the difference", async () => {
    const { world, agent } = await armedAgent();
    world.cutOff();
    world.time = watchdogMs + 10_000;
    const permitMs = world.memory?.permitMs ?? 0;
    const startMs = world.nowMs;
    await world.run(agent, 100);
    const fed = world.takeDevice().length;
    assert.ok(fed <= (permitMs + times.permitMs - 20_000 - startMs) / 1_000 + 2, `${fed}`);
  });

  test("a longer permit counts once it is acknowledged, and a shorter one at once", async () => {
    const { world } = await armedAgent();
    world.cutOff();
    await world.run(world.agent(bootId, { permitMs: 400_000 }), 100);
    assert.ok(world.takeDevice().length < 60, "the API server knows the shorter one");
    const { world: other } = await armedAgent();
    other.cutOff();
    await other.run(other.agent(bootId, { permitMs: 30_000, freshMs: 12_000 }), 100);
    assert.ok(other.takeDevice().length < 32);
  });
});
