/** The summary at the end, and the exit code. */

import { replacedAfterMs } from "../support/served-group.ts";
import { limitMs } from "./demo.ts";
import type { Outcome, Play } from "./play.ts";
import { countRequests, describeRequests } from "./requests.ts";
import { wrap } from "./text.ts";

type Row = readonly [label: string, value: string];

const logLinesShown = 10;
/** If nothing blocks evictions, a storm breaks the same promise for every pod. */
const violationsShown = 5;
const indent = 2;
const longestLabel = "worst unavailability".length;

const headlines: Readonly<Record<Outcome, string>> = {
  rolled: "rolled",
  late: `NOT ROLLED within ${limitMs / 1000} s`,
  "broken promise": "AN INVARIANT IS BROKEN",
  "sluice ended": "SLUICE'S PROCESS HAS ENDED by itself",
  "sluice not ready": "SLUICE DID NOT BECOME READY",
  interrupted: "interrupted",
};

/** 0 if the rollout ended in time and every promise was kept. */
export function exitCodeOf({ outcome, stage }: Play): 0 | 1 {
  return outcome === "rolled" && stage.referee.violations.length === 0 ? 0 : 1;
}

/** The summary in lines of at most `columns` characters. */
export function summarise(play: Play, columns: number): string[] {
  const rows = [...describeRollout(play), ...describePromises(play), ...describeEnd(play)];
  const width = Math.max(20, columns - indent - longestLabel - 1);
  const lines = rows.flatMap(([label, value]) =>
    wrap(value, width).map((line, index) => `${(index === 0 ? label : "").padEnd(longestLabel)} ${line}`),
  );
  return [
    `Sluice demo: ${headlines[play.outcome ?? "interrupted"]}`,
    ...lines.map((line) => " ".repeat(indent) + line),
  ];
}

function describeRollout(play: Play): Row[] {
  const { stage, total, done } = play;
  const { referee, group, served, events } = stage;
  const sent = events.lost + events.sent;
  const percent = Math.round((100 * events.lost) / Math.max(1, sent));
  const worst = group.statefulSets.map(({ name }) => `${name} ${referee.worstOf(name).down}`).join(", ");
  return [
    ["pods rolled", `${done} of ${total}`],
    ["time", describeTime(play)],
    ["worst unavailability", `${worst}; ${stage.budget} may be down in a zone`],
    ["zones down at once", `${referee.worstZones.taken} by Sluice, ${referee.worstZones.down} with the pod that broke`],
    ["why it waited", describeWait(play)],
    ...describeStorm(play),
    ...describeDownscale(play),
    ["API requests", describeRequests(countRequests(served.requests()), total)],
    ["watch events lost", `${events.lost} of ${sent} (${percent} %)`],
  ];
}

function describeTime({ tookMs, fastestMs, brokenForMs, stage, total, twice }: Play): string {
  const again = twice > 0 ? ` and ${twice} of them twice` : "";
  const pods = `${total} pods${again}, ${stage.budget} at once, ${seconds(replacedAfterMs)} each`;
  const broken = brokenForMs > 0 ? `, ${seconds(brokenForMs)} of it with a broken pod` : "";
  return `${seconds(tookMs)}${broken}; the limit is ${seconds(fastestMs)} (${pods})`;
}

function describeWait({ brokenForMs, reason }: Play): string {
  if (brokenForMs === 0) return "no pod broke";
  return reason ?? "the ledger had not said when it was over";
}

function describeStorm({ storm, stage, refusals }: Play): Row[] {
  if (storm === undefined) return [["drains", "none had begun"]];
  const { pods, nodes, gone, refused, startedMs, endedMs, rehearsal, failures } = storm;
  const { evicted } = stage.referee.deletions;
  const took = endedMs === undefined ? "" : ` in ${seconds(endedMs - startedMs)}`;
  const byGuard = refusals.byGuard.map(([guard, count]) => `${count} ${guard}`).join(", ");
  const { last } = refusals;
  const taken = `${evicted} evicted, ${Math.max(0, gone - evicted)} rolled`;
  const rows: Row[] = [
    ["drains", `${gone} of ${pods.length} pods of ${nodes.length} nodes gone${took}: ${taken}`],
    ["refused reviews", `${refused}${byGuard === "" ? "" : `: ${byGuard}`}`],
  ];
  if (last !== undefined) rows.push(["the last refusal", `${last.guard}: ${last.message}`]);
  if (rehearsal !== undefined) {
    const isTraceless = stage.referee.violations.every(({ invariant }) => invariant !== "E2");
    const left = isTraceless ? "; it left no trace" : "";
    rows.push(["dry run", `${rehearsal.pod} could go, after ${rehearsal.refused} refusals${left}`]);
  }
  if (failures.length > 0) rows.push(["drains that gave up", `${failures.length}, at last for: ${failures.at(-1)}`]);
  return rows;
}

function describeDownscale({ downscale }: Play): Row[] {
  if (downscale === undefined) return [];
  const refused = downscale.refusals.map((message): Row => ["a refused downscale", message]);
  return [["downscale", downscale.reached], ...refused];
}

function describePromises({ stage }: Play): Row[] {
  const { violations, deletions } = stage.referee;
  if (violations.length > 0) {
    const shown = violations.slice(0, violationsShown);
    const rows = shown.map(({ invariant, message }): Row => [`${invariant} IS BROKEN`, message]);
    const more = violations.length - shown.length;
    return more === 0 ? rows : [...rows, ["", `and ${more} more`]];
  }
  const { all, ready, evicted } = deletions;
  const taken = `${all - evicted} deletions and ${evicted} evictions, ${ready} of them of ready pods`;
  return [["invariants", `Z1, Z2, Z3, Z4, E1 and E2 kept by ${taken}`]];
}

function describeEnd({ outcome, sluice }: Play): Row[] {
  if (outcome !== "sluice ended" && outcome !== "sluice not ready") return [];
  const lines = sluice.lastLines(logLinesShown).map((line): Row => ["", line]);
  return [["Sluice's process", `${sluice.end()?.summary ?? "it was ended"}; its last lines:`], ...lines];
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
