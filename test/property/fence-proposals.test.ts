/** What holds for the peers that are proposed in any cluster, while agents fall silent and are started again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decideProposals, type SurveyedAgent } from "../../functions/fence-node/decide-proposal.ts";

const print = (at: number) => at.toString(16).padStart(16, "0");
const silence = fc.constantFrom(0, 0, 0, 50_000, 100_000, 200_000);

const drawnAgent = fc.record({
  zone: fc.constantFrom("", "zone-a", "zone-b", "zone-c"),
  isControlPlane: fc.nat(9).map((one) => one === 0),
  isAsked: fc.nat(9).map((one) => one > 0),
  isSeenRenewing: fc.nat(9).map((one) => one > 0),
  silentMs: silence,
});
const drawnCluster = fc.array(drawnAgent, { minLength: 1, maxLength: 70 }).map((agents) =>
  agents.map(
    ({ isAsked, ...agent }, at): SurveyedAgent => ({
      ...agent,
      name: `node-${String(at).padStart(3, "0")}`,
      fingerprint: isAsked ? print(at) : undefined,
      peers: [],
    }),
  ),
);
/** What happens to one agent before the next survey. */
const drawnChange = fc.record({ at: fc.nat(69), isStarted: fc.boolean(), silentMs: silence });

/** The agents after each has adopted what is proposed to it. */
function adopted(agents: readonly SurveyedAgent[]): readonly SurveyedAgent[] {
  const proposals = decideProposals(agents);
  return agents.map((agent) => ({ ...agent, peers: proposals.get(agent.name) ?? agent.peers }));
}

function assertLists(agents: readonly SurveyedAgent[]): void {
  const asked = new Map<string, number>();
  for (const { name, peers } of agents) {
    const names = peers.map((peer) => peer.name);
    assert.ok(!names.includes(name), "no node is its own peer");
    assert.ok(new Set(names).size === names.length && names.length <= 12);
    for (const peer of names) asked.set(peer, (asked.get(peer) ?? 0) + 1);
  }
  assert.ok(Math.max(0, ...asked.values()) <= 24, "at most 24 nodes ask one");
}

test("no list has its own node, a peer twice, or more than 12, no agent is asked by more than 24, and all lists come to rest", () => {
  const property = fc.property(
    drawnCluster,
    fc.array(fc.array(drawnChange, { maxLength: 12 }), { maxLength: 4 }),
    (cluster, rounds) => {
      let agents: readonly SurveyedAgent[] = cluster;
      for (const [round, changes] of [[], ...rounds].entries()) {
        agents = agents.map((agent, at) => {
          const { isStarted, silentMs } = changes.find((one) => one.at === at) ?? {};
          if (isStarted === true && agent.fingerprint !== undefined) {
            return { ...agent, fingerprint: print(1_000 * (round + 1) + at) };
          }
          return { ...agent, silentMs: silentMs ?? agent.silentMs };
        });
        assert.deepEqual(
          decideProposals(agents.toReversed()),
          decideProposals(agents),
          "the order of the survey counts",
        );
        // A place that a list gives up may be taken by another list in the next survey.
        for (let survey = 0; survey < 3; survey++) {
          agents = adopted(agents);
          assertLists(agents);
        }
        assert.equal(decideProposals(agents).size, 0, "a list changes without a reason");
      }
    },
  );
  fc.assert(property, { numRuns: 400 });
});
