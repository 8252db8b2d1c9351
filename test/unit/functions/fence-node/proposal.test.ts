/** Which peers are proposed: the rules of one list, and what holds for all lists of drawn clusters. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { decideProposals, type SurveyedAgent } from "../../../../functions/fence-node/decide-proposal.ts";
import { formatPeers, type Peer } from "../../../../functions/shared/annotations/fencing-peers.ts";

const print = (at: number) => at.toString(16).padStart(16, "0");
const agentOf = (at: number, change: Partial<SurveyedAgent> = {}): SurveyedAgent => ({
  name: `node-${String(at).padStart(3, "0")}`,
  zone: "",
  isControlPlane: false,
  fingerprint: print(at),
  isSeenRenewing: true,
  silentMs: 5_000,
  peers: [],
  ...change,
});
const cluster = (count: number, change: (at: number) => Partial<SurveyedAgent> = () => ({})) =>
  Array.from({ length: count }, (_, at) => agentOf(at, change(at)));
/** The agents after each has adopted what is proposed to it. */
const adopted = (agents: readonly SurveyedAgent[]): readonly SurveyedAgent[] => {
  const proposals = decideProposals(agents);
  return agents.map((agent) => ({ ...agent, peers: proposals.get(agent.name) ?? agent.peers }));
};
const namesOf = (peers: readonly Peer[]) =>
  peers.map(({ name }) => Number(name.slice(5))).sort((one, other) => one - other);
const peersOf = (agents: readonly SurveyedAgent[], at: number) => namesOf(agents[at]?.peers ?? []);

suite("the peers that are proposed", () => {
  test("in a small cluster each node gets all others, with the keys of their Leases", () => {
    const agents = adopted(cluster(3));
    assert.equal(formatPeers(agents[0]?.peers ?? []), `node-001=${print(1)} node-002=${print(2)}`);
    assert.equal(decideProposals(agents).size, 0, "nothing is proposed twice");
  });

  test("an agent that was not seen to renew, or is silent, or cannot be asked is no new peer", () => {
    for (const change of [{ isSeenRenewing: false }, { silentMs: 60_000 }, { fingerprint: undefined }]) {
      const agents = adopted(cluster(3, (at) => (at === 1 ? change : {})));
      assert.deepEqual(peersOf(agents, 0), [2], JSON.stringify(change));
      assert.deepEqual(peersOf(agents, 1), [0, 2], "it gets peers itself");
    }
  });

  test("an agent that has been silent for just less than a minute is a new peer", () => {
    const agents = adopted(cluster(3, (at) => (at === 1 ? { silentMs: 59_999 } : {})));
    assert.deepEqual(peersOf(agents, 0), [1, 2]);
  });

  test("a peer stays until it has been silent for two minutes, is gone, or has another key", () => {
    const agents = adopted(cluster(4));
    const later = (change: Partial<SurveyedAgent>) =>
      adopted(agents.map((agent, at) => (at === 1 ? { ...agent, ...change } : agent)));
    assert.deepEqual(peersOf(later({ silentMs: 119_999, isSeenRenewing: false }), 0), [1, 2, 3]);
    assert.deepEqual(peersOf(later({ silentMs: 120_000 }), 0), [2, 3]);
    assert.deepEqual(peersOf(adopted(agents.filter((_, at) => at !== 1)), 0), [2, 3]);
    const restarted = later({ fingerprint: print(99) })[0]?.peers.find(({ name }) => name === "node-001");
    assert.equal(restarted?.fingerprint, print(99));
  });

  test("a control-plane node is a peer only where no other node is one, and there are two", () => {
    const first = { isControlPlane: true };
    assert.deepEqual(peersOf(adopted(cluster(4, (at) => (at === 0 ? first : {}))), 1), [2, 3]);
    assert.deepEqual(peersOf(adopted(cluster(4, (at) => (at === 0 ? first : {}))), 0), [1, 2, 3]);
    assert.deepEqual(peersOf(adopted(cluster(2, (at) => (at === 0 ? first : {}))), 1), [], "a single one has no peers");
    assert.deepEqual(peersOf(adopted(cluster(3, () => first)), 1), [0, 2]);
    assert.deepEqual(peersOf(adopted(cluster(3, (at) => (at < 2 ? first : {}))), 2), [0, 1], "the only other node");
  });

  test("at most a third is of its own zone where there are others, and without others all may be", () => {
    const zones = adopted(cluster(30, (at) => ({ zone: at < 20 ? "a" : "b" })));
    const own = peersOf(zones, 0).filter((at) => at < 20);
    const others = peersOf(zones, 0).filter((at) => at >= 20);
    assert.ok(own.length <= others.length / 2, `${own.length} and ${others.length}`);
    const alone = adopted(cluster(30, (at) => ({ zone: at < 29 ? "a" : "b" })));
    assert.deepEqual(peersOf(alone, 0), [29], "one elsewhere allows none of its own");
    assert.equal(peersOf(adopted(cluster(30, () => ({ zone: "a" }))), 0).length, 12);
  });

  test("no agent is a peer of more than 24 nodes, however few there are", () => {
    const agents = adopted(cluster(100, (at) => (at < 50 ? {} : { fingerprint: undefined })));
    const asked = Map.groupBy(
      agents.flatMap(({ peers }) => namesOf(peers)),
      (at) => at,
    );
    assert.deepEqual(new Set([...asked.values()].map(({ length }) => length)), new Set([24]));
    assert.equal(decideProposals(agents).size, 0);
  });

  test("each zone but the own one gives as many peers, and each agent gets about as many nodes", () => {
    const agents = adopted(cluster(60, (at) => ({ zone: "abcd"[Math.floor(at / 15)] ?? "" })));
    for (const [at, { peers }] of agents.entries()) {
      const zones = Map.groupBy(namesOf(peers), (peer) => Math.floor(peer / 15));
      assert.ok(!zones.has(Math.floor(at / 15)), "there are enough elsewhere");
      assert.deepEqual(
        [...zones.values()].map(({ length }) => length),
        [4, 4, 4],
        `${at}`,
      );
    }
    const asked = Map.groupBy(
      agents.flatMap(({ peers }) => namesOf(peers)),
      (at) => at,
    );
    const counts = [...asked.values()].map(({ length }) => length);
    assert.ok(Math.min(...counts) >= 9 && Math.max(...counts) <= 15, counts.join());
    assert.equal(decideProposals(agents).size, 0, "a full list stays as it is");
  });

  test("peers of the own zone keep their places when other zones get agents, up to a third", () => {
    const alone = adopted(cluster(20, () => ({ zone: "a" })));
    const more = [
      ...alone,
      ...cluster(40)
        .slice(20)
        .map((agent) => ({ ...agent, zone: "b" })),
    ];
    const own = peersOf(adopted(more), 0).filter((at) => at < 20);
    assert.equal(own.length, 4);
    assert.ok(own.every((at) => peersOf(alone, 0).includes(at)));
  });

  test("where all agents of other zones are asked by 24, a list is of its own zone", () => {
    const agents = adopted(cluster(100, (at) => ({ zone: at < 98 ? "a" : "b" })));
    assert.ok(agents.some((_, at) => at < 98 && peersOf(agents, at).length === 12));
    assert.ok(agents.every(({ peers }) => peers.length > 0));
  });

  test("a list that names its own node loses it", () => {
    const wrong = [{ name: "node-000", fingerprint: print(0) }];
    const agents = adopted(cluster(3, (at) => (at === 0 ? { peers: wrong } : {})));
    assert.deepEqual(peersOf(agents, 0), [1, 2]);
  });

  test("a node that joins takes no place in a full list", () => {
    const agents = adopted(cluster(40, (at) => ({ zone: "abc"[at % 3] ?? "" })));
    const more = adopted([...agents, agentOf(40, { zone: "b" })]);
    for (const at of agents.keys()) assert.deepEqual(peersOf(more, at), peersOf(agents, at), `${at}`);
    assert.equal(peersOf(more, 40).length, 12);
  });

  test("of more than 64 agents that could be peers the first 64 after a node are compared, so that a survey stays cheap", () => {
    const agents = adopted(cluster(100, (at) => ({ zone: at === 0 ? "b" : "a" })));
    // By turns of the zones the only agent of zone b comes first: it is the 64th one after the agent at place 36.
    for (const [at, { peers }] of agents.entries()) {
      const takes = at >= 36 && at < 60;
      assert.deepEqual([namesOf(peers).includes(0), peers.length], takes ? [true, 1] : [false, 12], `${at}`);
    }
  });

  test("in a large cluster whose names go by their zones, each list still has most of its peers elsewhere", () => {
    const zoneOf = (at: number) => (at < 100 ? "a" : "b");
    for (const [at, { peers }] of adopted(cluster(200, (one) => ({ zone: zoneOf(one) }))).entries()) {
      const elsewhere = namesOf(peers).filter((peer) => zoneOf(peer) !== zoneOf(at));
      assert.equal(peers.length, 12);
      assert.ok(elsewhere.length >= 8, `${at}: ${elsewhere.length}`);
    }
  });

  test("where fewer agents can be asked than all lists need, each is asked by 24 nodes and by no more", () => {
    const agents = adopted(cluster(100, (at) => (at < 40 ? {} : { fingerprint: undefined })));
    const asked = Map.groupBy(
      agents.flatMap(({ peers }) => namesOf(peers)),
      (at) => at,
    );
    assert.deepEqual(new Set([...asked.values()].map(({ length }) => length)), new Set([24]));
  });

  test("of lists that name one agent more than 24 times, as a hand may have written them, 24 keep it", () => {
    const wanted = [{ name: "node-000", fingerprint: print(0) }];
    const agents = adopted(cluster(31, (at) => (at === 0 ? {} : { peers: wanted })));
    const askers = agents.filter(({ peers }) => namesOf(peers).includes(0)).map(({ name }) => Number(name.slice(5)));
    assert.deepEqual(
      askers,
      [...Array(24).keys()].map((at) => at + 1),
    );
  });

  test("lists that stay count once: a node that joins gets peers that each have room for it", () => {
    const agents = adopted(cluster(20));
    const more = adopted([...agents, agentOf(20)]);
    assert.equal(peersOf(more, 20).length, 12);
  });

  test("the agents that fewest nodes ask are taken first", () => {
    const busy = [{ name: "node-001", fingerprint: print(1) }];
    const agents = adopted(cluster(16, (at) => (at > 1 ? { peers: busy } : {})));
    assert.deepEqual(
      peersOf(agents, 0),
      [...Array(12).keys()].map((at) => at + 2),
    );
  });
});
