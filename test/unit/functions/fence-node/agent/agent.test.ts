/** What the agent does to the watchdog of its node, and what it writes into its Lease. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { armed, bootId, feeding, fenceId, key, otherBootId, times, World, watchdogMs } from "./world.ts";

test("a new agent makes its Lease, and says boot, mode, permit, watchdog and contact in it", async () => {
  const world = new World();
  const agent = world.agent();
  await agent.renew();
  assert.deepEqual(world.requests, ["read", "create"]);
  assert.deepEqual(world.lease?.annotations, {
    [key("agent-mode")]: "explicit-only",
    [key("agent-why")]: "no-contact",
    [key("agent-boot-id")]: bootId,
    [key("agent-peers")]: "",
    [key("agent-key")]: world.memory?.publicKey,
    [key("agent-address")]: "10.0.0.1:9843",
    [key("agent-permit-seconds")]: "40",
    [key("agent-watchdog-seconds")]: "10",
    [key("agent-fresh-seconds")]: "17",
    [key("agent-renewals")]: "1",
    [key("agent-contact-seconds")]: "0",
  });
});

test("a renewal is one conditional PATCH, which counts on", async () => {
  const { world, agent } = await feeding();
  world.requests.length = 0;
  await world.run(agent, 15);
  assert.deepEqual(world.requests, ["patch", "patch", "patch"]);
  assert.equal(world.lease?.annotations[key("agent-contact-seconds")], "17");
  const counts = world.written.map((annotations) => Number(annotations[key("agent-renewals")]));
  assert.ok(
    counts.every((count, at) => at < 2 || count === (counts[at - 1] ?? 0) + 1),
    counts.join(),
  );
});

test("an agent in a new boot does not touch the device before its first success, and nothing of an earlier boot counts", async () => {
  const world = new World();
  world.memory = { bootId: otherBootId, permitMs: 900, armed: `${fenceId} ${otherBootId}`, isTainted: true };
  world.refused.read = 0;
  const agent = world.agent();
  await world.run(agent, 60);
  assert.equal(world.device, "");
  delete world.refused.read;
  await world.run(agent, 3);
  assert.equal(world.device, "o...");
});

test("isolation alone never resets the node: without the API the agent feeds on, whatever the permit", async () => {
  const { world, agent } = await feeding();
  for (const request of ["read", "patch", "create", "node"] as const) world.refused[request] = 0;
  await world.run(agent, 1_000);
  assert.equal(world.takeDevice(), ".".repeat(1_000));
  assert.equal(world.resets, 0);
});

test("told to stop, and with the taint on its Node, the agent never feeds again, whatever it reads later", async () => {
  const { world, agent } = await feeding();
  world.isTainted = true;
  world.annotate({ [key("fence-armed")]: armed });
  await world.run(agent, 2);
  assert.equal(world.takeDevice(), "");
  world.annotate({ [key("fence-armed")]: `${fenceId} ${otherBootId}` });
  world.isTainted = false;
  await world.run(agent, 30);
  world.lease = undefined;
  await world.run(agent, 30);
  assert.equal(world.takeDevice(), "");
  assert.equal(world.memory?.armed, armed);
});

test("an agent that is started again after it was told to stop neither feeds nor opens the device", async () => {
  const { world, agent } = await feeding();
  world.isTainted = true;
  world.annotate({ [key("fence-armed")]: armed });
  await agent.renew();
  for (const request of ["read", "patch", "node"] as const) world.refused[request] = 0;
  await world.run(world.agent(), 15);
  assert.equal(world.takeDevice(), "");
});

test("a process that is started again in one boot takes the device over without the API", async () => {
  const { world } = await feeding();
  for (const request of ["read", "patch", "create", "node"] as const) world.refused[request] = 0;
  const successor = world.agent();
  successor.tick();
  assert.equal(world.takeDevice(), "o.");
});

test("armed without the taint, the agent goes on until its permit runs out, and looks for the taint at each renewal", async () => {
  const { world, agent } = await feeding();
  world.annotate({ [key("fence-armed")]: armed });
  world.requests.length = 0;
  await world.run(agent, 15);
  assert.equal(world.takeDevice(), ".".repeat(15));
  assert.equal(world.requests.filter((request) => request === "node").length, 3);
  world.isTainted = true;
  await world.run(agent, 5);
  assert.equal(world.takeDevice(), "");
});

test("armed without the taint, the permit that was there before runs out after L, and the agent stops", async () => {
  const { world, agent } = await feeding();
  const permitMs = world.memory?.permitMs ?? 0;
  world.annotate({ [key("fence-armed")]: armed });
  await world.run(agent, 60);
  const fed = world.takeDevice().length;
  assert.equal(fed, Math.floor((permitMs + times.permitMs - 13_000) / 1_000) + 1);
});

test("an agent that begins in a fenced boot without the taint touches nothing, and with it starts the device and starves it", async () => {
  const world = new World();
  world.lease = { uid: "u", resourceVersion: "0", annotations: { [key("fence-armed")]: armed } };
  const agent = world.agent();
  await world.run(agent, 60);
  assert.equal(world.takeDevice(), "");
  world.isTainted = true;
  await world.run(agent, 15);
  assert.equal(world.takeDevice(), "o");
});

test("a fence of another boot changes nothing", async () => {
  const { world, agent } = await feeding();
  world.isTainted = true;
  world.annotate({ [key("fence-armed")]: `${fenceId} ${otherBootId}` });
  await world.run(agent, 50);
  assert.equal(world.takeDevice(), ".".repeat(50));
  assert.ok(!world.requests.includes("node"), "the Node is not read");
  assert.equal(world.lease?.annotations[key("agent-mode")], "explicit-only");
});

const rubbish = [
  "",
  " ",
  "x",
  bootId,
  `${fenceId}  ${bootId}`,
  `${armed} `,
  `${armed}\n`,
  `{"fence":"${fenceId}"}`,
  "a".repeat(262_144),
];

test("rubbish in its Lease changes nothing, and the agent's own annotations are written anew", async () => {
  for (const text of rubbish) {
    const { world, agent } = await feeding();
    world.isTainted = true;
    world.annotate({
      [key("fence-armed")]: text,
      [key("agent-renewals")]: text,
      [key("agent-watchdog-seconds")]: "-1",
    });
    await world.run(agent, 12);
    assert.equal(world.takeDevice(), ".".repeat(12), JSON.stringify(text.slice(0, 50)));
    assert.equal(world.lease?.annotations[key("agent-watchdog-seconds")], "10");
    assert.match(world.lease?.annotations[key("agent-renewals")] ?? "", /^\d+$/);
  }
});

test("while a fence of this boot is armed the agent changes nothing in its Lease but renewals and contact", async () => {
  const { world, agent } = await feeding();
  world.annotate({ [key("fence-armed")]: armed });
  world.time = 30_000;
  await agent.renew();
  world.written.length = 0;
  await agent.renew();
  assert.deepEqual(
    world.written.map((annotations) => Object.keys(annotations).sort()),
    [[key("agent-contact-seconds"), key("agent-renewals")]],
  );
});

test("an API server that cannot write, or refuses to, costs no permit: the agent reads its Lease", async () => {
  for (const status of [403, 409, 429, 500, 503]) {
    const { world, agent } = await feeding();
    world.refused.patch = status;
    world.requests.length = 0;
    await agent.renew();
    assert.deepEqual(world.requests, ["patch", "read"]);
    assert.equal(world.memory?.permitMs, world.nowMs, `${status}`);
    world.annotate({ [key("fence-armed")]: armed });
    world.isTainted = true;
    await agent.renew();
    agent.tick();
    assert.equal(world.takeDevice(), "", "a fence is read all the same");
  }
});

test("the permit is the time at which the request was sent, and a request without an answer gives none", async () => {
  const { world, agent } = await feeding();
  const sentMs = world.nowMs;
  world.before = () => {
    world.nowMs += 700;
  };
  await agent.renew();
  assert.equal(world.memory?.permitMs, sentMs);
  world.before = undefined;
  world.refused.patch = 0;
  await agent.renew();
  assert.equal(world.memory?.permitMs, sentMs);
  delete world.refused.patch;
});

test("a Lease that is deleted is made anew, and gives a permit", async () => {
  const { world, agent } = await feeding();
  world.lease = undefined;
  world.requests.length = 0;
  await agent.renew();
  assert.deepEqual(world.requests, ["patch", "read", "create"]);
  assert.equal(world.memory?.permitMs, world.nowMs);
});

test("a success more than X after the last one begins the contact anew", async () => {
  const { world, agent } = await feeding();
  world.nowMs += times.freshMs - 2_000;
  await agent.renew();
  await agent.renew();
  assert.notEqual(world.written.at(-1)?.[key("agent-contact-seconds")], "0");
  world.nowMs += times.freshMs + 1;
  await agent.renew();
  await agent.renew();
  assert.equal(world.written.at(-1)?.[key("agent-contact-seconds")], "0");
});

test("an orderly stop writes the mode disarmed, and then stops the device by V", async () => {
  const { world, agent } = await feeding();
  assert.equal(await agent.stop(), true);
  assert.equal(world.lease?.annotations[key("agent-mode")], "disarmed");
  assert.equal(world.lease?.annotations[key("agent-why")], "stopped");
  assert.equal(world.takeDevice(), "V");
  agent.tick();
  assert.equal(world.takeDevice(), "");
});

test("an orderly stop whose write is not acknowledged leaves the device running", async () => {
  for (const status of [0, 403, 500]) {
    const { world, agent } = await feeding();
    world.refused.patch = status;
    assert.equal(await agent.stop(), false);
    assert.equal(world.takeDevice(), "");
  }
});

test("an orderly stop of a fenced boot leaves the device running, also where the fence is armed meanwhile", async () => {
  const { world, agent } = await feeding();
  world.annotate({ [key("fence-armed")]: armed });
  assert.equal(await agent.stop(), false, "the conflict shows the fence");
  assert.equal(world.takeDevice(), "");
  assert.equal(world.lease?.annotations[key("agent-mode")], "explicit-only");
});

test("an orderly stop writes again after a conflict that shows no fence", async () => {
  const { world, agent } = await feeding();
  world.annotate({ [key("agent-peers-proposed")]: "x" });
  assert.equal(await agent.stop(), true);
  assert.equal(world.takeDevice(), "V");
});

test("a device that cannot be stopped is left running without V", async () => {
  const { world, agent } = await feeding();
  world.isNoWayOut = true;
  assert.equal(await agent.stop(), false);
  assert.equal(world.takeDevice(), "");
});

test("a device that takes no byte is fed again when it does, and until then the log says so once and the agent goes on", async () => {
  const { world, agent } = await feeding();
  world.writeError = "ENOSPC";
  const renewals = Number(world.lease?.annotations[key("agent-renewals")]);
  await world.run(agent, 20);
  assert.equal(world.takeDevice(), "");
  assert.equal(world.logged.filter((message) => message.includes("the watchdog was not fed: ENOSPC")).length, 1);
  assert.equal(Number(world.lease?.annotations[key("agent-renewals")]), renewals + 4);
  world.writeError = undefined;
  agent.tick();
  assert.equal(world.takeDevice(), ".");
});

test("a device that does not take its V counts as one that still runs", async () => {
  const { world, agent } = await feeding();
  world.writeError = "EIO";
  assert.equal(await agent.stop(), false);
  assert.ok(world.logged.includes("the watchdog cannot be stopped: EIO"));
});

test("where an opened watchdog has not fired after 2 W, the machine is reset by one write", async () => {
  const { world, agent } = await feeding();
  world.isTainted = true;
  world.annotate({ [key("fence-armed")]: armed });
  const fedMs = world.nowMs - 1_000;
  await agent.renew();
  world.nowMs = fedMs + 2 * watchdogMs - 1;
  agent.tick();
  assert.equal(world.resets, 0);
  world.nowMs++;
  agent.tick();
  agent.tick();
  assert.equal(world.resets, 1);
});

test("a reset that fails is tried again, and the log says so once", async () => {
  const { world, agent } = await feeding();
  world.isTainted = true;
  world.annotate({ [key("fence-armed")]: armed });
  world.resetError = "EROFS";
  await world.run(agent, 30);
  assert.equal(world.logged.filter((message) => message.includes("EROFS")).length, 1);
  world.resetError = undefined;
  agent.tick();
  assert.equal(world.resets, 1);
});

test("without a watchdog the agent says why, and a fence resets the machine at once by one write", async () => {
  for (const [time, code, why] of [
    ["no-watchdog", undefined, "no-watchdog"],
    ["watchdog-time-unknown", undefined, "watchdog-time-unknown"],
    [10_000, "EBUSY", "watchdog-busy"],
    [10_000, "ENOENT", "no-watchdog"],
  ] as const) {
    const world = new World();
    world.time = time;
    world.openError = code;
    const agent = world.agent();
    await world.run(agent, 12);
    assert.equal(world.lease?.annotations[key("agent-why")], why);
    assert.equal(world.lease?.annotations[key("agent-watchdog-seconds")], "0");
    assert.equal(world.resets, 0);
    world.isTainted = true;
    world.annotate({ [key("fence-armed")]: armed });
    await world.run(agent, 5);
    assert.equal(world.resets, 1);
  }
});

test("a device that becomes free is taken", async () => {
  const world = new World();
  world.openError = "EBUSY";
  const agent = world.agent();
  await world.run(agent, 6);
  world.openError = undefined;
  await world.run(agent, 6);
  assert.match(world.device, /^o\.+$/);
  assert.equal(world.lease?.annotations[key("agent-watchdog-seconds")], "10");
});

test("the device is fed five times in its time, and at least once a second", () => {
  const world = new World();
  assert.equal(world.agent().tickMs, 1_000);
  world.time = 1_000;
  assert.equal(world.agent().tickMs, 200);
  world.time = "no-watchdog";
  assert.equal(world.agent().tickMs, 1_000);
});
