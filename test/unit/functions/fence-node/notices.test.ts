/** Events about the modes of agents: each once, in bounded numbers, and none about an agent that has just started. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decideNotices,
  mostNotices,
  type NoticedAgent,
  type ObservedAgent,
} from "../../../../functions/fence-node/decide-notices.ts";

const armed: ObservedAgent = { node: "n", uid: "uid", mode: "armed", why: undefined, bootId: "boot-1" };
const silentPeers: ObservedAgent = { ...armed, mode: "explicit-only", why: "peers-silent" };

/** What each of these surveys reports, as `MODE why`. */
function played(...surveys: readonly (readonly ObservedAgent[])[]): readonly (readonly string[])[] {
  let before: ReadonlyMap<string, NoticedAgent> | undefined;
  return surveys.map((agents) => {
    const { noticed, notices } = decideNotices(agents, before);
    before = noticed;
    return notices.map(({ agent, isArmed }) => (isArmed ? "armed" : `not ${agent.why}`));
  });
}

test("an agent that is not armed is reported by the second survey that shows it, once", () => {
  assert.deepEqual(played([silentPeers], [silentPeers], [silentPeers]), [[], ["not peers-silent"], []]);
});

test("an agent that is not armed in one survey alone is not reported, and then no word of it is taken back", () => {
  assert.deepEqual(played([armed], [silentPeers], [armed], [armed]), [[], [], [], []]);
});

test("an agent that is armed again is reported once, and so is another reason, or another boot", () => {
  const maintained: ObservedAgent = { ...silentPeers, why: "maintenance" };
  const booted: ObservedAgent = { ...maintained, bootId: "boot-2" };
  const surveys = [silentPeers, silentPeers, armed, armed, armed, maintained, maintained, booted, booted, booted];
  assert.deepEqual(played(...surveys.map((one) => [one])), [
    [],
    ["not peers-silent"],
    [],
    ["armed"],
    [],
    [],
    ["not maintenance"],
    [],
    ["not maintenance"],
    [],
  ]);
});

test("a Node that was made anew under the name of another one is a new one: its agent is reported by its own second survey", () => {
  const anew: ObservedAgent = { ...silentPeers, uid: "uid-2" };
  assert.deepEqual(played([silentPeers], [anew], [anew]), [[], [], ["not peers-silent"]]);
});

test("a large cluster without watchdogs gets a few Events with each survey, and all of them in the end", () => {
  const agents = Array.from({ length: 25 }, (_, at) => ({ ...silentPeers, node: `n-${at}`, uid: `uid-${at}` }));
  const counts = played(agents, agents, agents, agents, agents).map(({ length }) => length);
  assert.deepEqual(counts, [0, mostNotices, mostNotices, 5, 0]);
});
