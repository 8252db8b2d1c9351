/** What happens to the network and to processes in one run of the fence model: drawn at random, or drawn around one danger. */
import { excusingPeers } from "../../functions/fence-node/decide-quorum.ts";
import type { ModelAgent, ModelCluster } from "./fence-model-agent.ts";
import { seconds, watchdogSeconds } from "./fence-model-settings.ts";

/**
 * - `random`: partitions without a plan.
 * - `swap`: the peers that excuse the target change hands.
 * - `revive`: a peer comes back, and another one is cut off and writes late.
 * - `list`: the target is cut off while it adopts new peers.
 * - `starve`: the target alone is cut off, and its feeding pauses near the end of its permit.
 * - `fresh`: the agent of a peer starts anew while it is cut off.
 */
const kinds = ["random", "swap", "revive", "list", "starve", "fresh"] as const;

export interface Script {
  /** When new peers are proposed to the target. */
  readonly proposals: readonly number[];
  /** How likely the target pauses between its check and its write, with so many seconds of its permit left. */
  pauseChance(leftSeconds: number): number;
  step(now: number): void;
}

type Planned = (at: number, act: () => void) => void;

export function drawScript(model: ModelCluster): Script {
  const { random } = model;
  const proposals = [18 + random() * 25, 18 + random() * 60];
  const kind = kinds[Math.floor(random() * kinds.length)] ?? "random";
  const plan: { readonly at: number; readonly act: () => void }[] = [];
  const at: Planned = (time, act) => void plan.push({ at: Math.round(time * 2) / 2, act });
  if (kind === "random") planAtRandom(model, at);
  else if (kind === "list") {
    proposals.splice(0, 2, 11 + random() * 9, 999);
    planList(model, at);
  } else planDanger(kind, model, at);
  at(260, () => join(model));
  return {
    proposals,
    pauseChance: (left) => ((kind === "starve" || kind === "fresh") && left < 1.5 ? 0.5 : 0.02),
    step: (now) => {
      for (const { act } of plan.filter((planned) => planned.at === now)) act();
    },
  };
}

function join(model: ModelCluster): void {
  for (const agent of model.agents) agent.group = 0;
  model.isApiDown = false;
}

/** The target and these agents reach each other, and not the API server; all others reach it. */
function cutOff(model: ModelCluster, together: readonly (ModelAgent | undefined)[]): void {
  join(model);
  for (const agent of [model.target, ...together]) if (agent !== undefined) agent.group = 1;
}

function planAtRandom(model: ModelCluster, at: Planned): void {
  const { random, agents, target } = model;
  at(20, () => {
    for (const agent of agents) agent.group = random() < 0.45 ? 1 + Math.floor(random() * 2) : 0;
    target.group ||= 1;
  });
  at(40 + Math.floor(random() * 60), () => {
    if (random() < 0.4) return;
    for (const agent of agents) {
      const moves = (agent !== target || random() < 0.3) && random() < 0.4;
      if (moves) agent.group = random() < 0.5 ? 0 : 1 + Math.floor(random() * 2);
    }
  });
  at(60, () => {
    model.isApiDown = random() < 0.2;
  });
  at(90, () => {
    model.isApiDown = false;
  });
  at(120, () => {
    if (random() < 0.5) return;
    for (const agent of agents) if (random() < 0.4) agent.group = Math.floor(random() * 3);
  });
}

/** Just enough peers to excuse the target, and the rest. */
function split(model: ModelCluster, list: readonly number[]) {
  const mixed = list.toSorted(() => model.random() - 0.5).map((index) => model.agents[index]);
  const quorum = excusingPeers(list.length);
  return { excusing: mixed.slice(0, quorum), rest: mixed.slice(quorum) };
}

function planList(model: ModelCluster, at: Planned): void {
  model.target.lateListChance = 0.7;
  at(20.5, () => cutOff(model, split(model, model.target.pending ?? model.target.list).excusing));
}

function planDanger(kind: "swap" | "revive" | "starve" | "fresh", model: ModelCluster, at: Planned): void {
  const { random } = model;
  const { excusing, rest } = split(model, model.target.list);
  at(20, () => cutOff(model, excusing));
  const move = (agent: ModelAgent | undefined, group: number) => () => {
    if (agent !== undefined) agent.group = group;
  };
  const [first] = excusing;
  const begin = 45 + random() * (kind === "swap" ? 40 : 30);
  if (kind === "starve") at(20.5, () => cutOff(model, []));
  if (kind === "swap" && rest.length > 0) {
    at(begin, move(rest[0], 1));
    at(begin + seconds.fresh + random() * 8, move(first, 0));
  }
  if (kind === "fresh") {
    const other = rest[0] ?? excusing[1] ?? first;
    at(begin, move(first, 0));
    at(begin + seconds.permitLife + random() * 2 * watchdogSeconds, () => {
      if (other !== undefined) Object.assign(other, { group: 1, isToRestart: true });
    });
  }
  if (kind === "revive") planRevival(model, at, begin, random() < 0.5 ? first : excusing.at(-1), rest[0] ?? first);
}

function planRevival(
  { random }: ModelCluster,
  at: Planned,
  begin: number,
  back: ModelAgent | undefined,
  lost: ModelAgent | undefined,
): void {
  if (back === undefined || lost === undefined) return;
  at(begin, () => {
    back.group = 0;
  });
  const { permitLife, fresh } = seconds;
  const end = begin + permitLife + watchdogSeconds - fresh - 2 + random() * (fresh + watchdogSeconds + 4);
  at(end - 3, () => {
    lost.lateRenewals = 2;
  });
  at(end, () => {
    Object.assign(lost, { group: 1, lateRenewals: 3, isToRestart: lost.isToRestart || random() < 0.5 });
  });
}
