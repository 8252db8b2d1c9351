/** The live picture of a demo, as lines of text: rows are zones and cells are pods. It always has the same number of lines. */
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { Paint, Style } from "./paint.ts";
import type { Play } from "./play.ts";
import { isUp } from "./referee.ts";
import { countRequests } from "./requests.ts";
import { isNew } from "./stage.ts";
import { cut, wrap } from "./text.ts";

/** The states of a cell, which are also the legend, in this order. */
const cells = {
  old: { symbol: "○", style: "blue" },
  new: { symbol: "●", style: "green" },
  "to go": { symbol: "▽", style: "yellow" },
  reserved: { symbol: "R", style: "magenta" },
  going: { symbol: "×", style: "yellow" },
  gone: { symbol: "·", style: "dim" },
  starting: { symbol: "◌", style: "cyan" },
  "not ready": { symbol: "!", style: "red" },
} as const satisfies Readonly<Record<string, { symbol: string; style: Style }>>;

type CellState = keyof typeof cells;

export interface PictureOptions {
  readonly columns: number;
  readonly paint: Paint;
}

const entriesShown = 3;
const margin = " ";
const labelLength = "watch events  ".length;
const longestCounts = "  60 new, 15 down".length;
const longestNumbers = "  180 of 180 pods  12.3 s  a pod is broken".length;

/** Draws lines of at most `columns` characters. */
export function drawPicture(play: Play, { columns, paint }: PictureOptions): string[] {
  const width = Math.max(20, columns - 2);
  const { stage, options } = play;
  const title = `Sluice rolls 3 zones of ${options.pods} pods, at most ${stage.budget} of them down at once`;
  return [
    "",
    paint("bold", cut(title, width)),
    "",
    ...stage.group.statefulSets.map(({ name }) => drawZone(play, name, width, paint)),
    "",
    drawLegend(width, paint),
    "",
    drawProgress(play, width, paint),
    ...drawVerdict(play, width, paint),
    ...(play.downscale === undefined ? drawStorm(play, width, paint) : drawDownscale(play, width, paint)),
    "",
    drawPromises(play, width, paint),
    drawCounters(play, width),
    "",
    ...drawEntries(play, width, paint),
  ].map((line) => `${margin}${line}`);
}

function drawZone(play: Play, zone: string, width: number, paint: Paint): string {
  const pods = podsOf(play, zone);
  const done = pods.filter(({ pod }) => pod !== undefined && isUp(pod) && isNew(pod)).length;
  const { spec } = play.stage.world.store.get("statefulsets", { namespace: play.stage.group.namespace, name: zone });
  const down = pods.slice(0, spec.replicas).filter(({ pod }) => pod === undefined || !isUp(pod)).length;
  const counts = `  ${String(done).padStart(2)} new${down === 0 ? "" : `, ${down} down`}`;
  const room = width - zone.length - 2;
  const gap = pods.length * 2 + longestCounts <= room ? " " : "";
  const isWide = pods.length * (1 + gap.length) + longestCounts <= room;
  const row = pods.slice(0, room).map(({ pod, isReserved }) => {
    const { symbol, style } = cells[stateOf(play, pod, isReserved)];
    return paint(style, symbol);
  });
  return `${zone}  ${row.join(gap)}${isWide ? counts : ""}`;
}

function podsOf({ stage, options, verdicts }: Play, zone: string) {
  const { namespace } = stage.group;
  const reserved = new Set(verdicts.reservations.map(({ uid }) => uid));
  return Array.from({ length: options.pods }, (_, ordinal) => {
    const pod = stage.world.store.find("pods", { namespace, name: `${zone}-${ordinal}` });
    return { pod, isReserved: pod !== undefined && reserved.has(pod.metadata.uid) };
  });
}

function stateOf({ storm, downscale }: Play, pod: StoredPod | undefined, isReserved: boolean): CellState {
  if (pod === undefined) return "gone";
  if (pod.metadata.deletionTimestamp !== undefined) return "going";
  if (!isUp(pod)) return pod.status.containerStatuses === undefined ? "starting" : "not ready";
  if (isReserved) return "reserved";
  if (storm?.wants(pod) || downscale?.isNotified(pod)) return "to go";
  return isNew(pod) ? "new" : "old";
}

function drawLegend(width: number, paint: Paint): string {
  const parts = Object.entries(cells);
  const isWide = parts.reduce((sum, [name]) => sum + name.length + 4, -2) <= width;
  if (!isWide) return "";
  return parts.map(([name, { symbol, style }]) => `${paint(style, symbol)} ${paint("dim", name)}`).join("  ");
}

function drawProgress(play: Play, width: number, paint: Paint): string {
  const { done, total, phase, tookMs } = play;
  const pods = `${String(done).padStart(String(total).length)} of ${total} pods`;
  const numbers = `  ${pods}  ${seconds(tookMs).padStart(6)}  ${timeLeft(play)}`;
  // Always as long, whatever the numbers are, so that a bar does not jump.
  const length = Math.max(5, Math.min(36, width - longestNumbers));
  const full = phase === "starting" || phase === "standing" ? 0 : Math.round((done / total) * length);
  const bar = `${paint("green", "━".repeat(full))}${paint("dim", "─".repeat(length - full))}`;
  return `${bar}${cut(numbers, Math.max(0, width - length))}`;
}

function timeLeft({ phase, leftMs }: Play): string {
  if (phase === "starting" || phase === "standing") return "not begun";
  if (phase === "downscale") return "a downscale";
  if (phase === "rolled" || leftMs === 0) return "all rolled";
  if (phase === "broken") return "a pod is broken";
  if (phase === "storm") return "a drain storm";
  return `about ${Math.ceil(leftMs / 1000)} s left`;
}

/** Three lines: what Sluice does or waits for. */
function drawVerdict(play: Play, width: number, paint: Paint): string[] {
  const { now, waits } = play.verdicts;
  if (now === undefined) return pad(["Sluice starts"], 3);
  const word = waits ? "waits" : now.guard === "done" ? "done" : "rolls";
  const lines = wrap(`${now.guard}: ${now.message}`, width - 7).slice(0, 3);
  const style = waits ? "yellow" : "green";
  return pad(
    lines.map((line, index) => (index === 0 ? `${paint(style, word.padEnd(5))}  ${line}` : `       ${line}`)),
    3,
  );
}

/** Three lines: the progress of the drains, and why the last review was refused. */
function drawStorm({ storm, refusals, stage }: Play, width: number, paint: Paint): string[] {
  if (storm === undefined) return pad(["drains        none yet"], 3);
  const { pods, nodes, gone, refused } = storm;
  const { evicted } = stage.referee.deletions;
  const taken = `${gone} of ${pods.length} pods of ${nodes.length} nodes gone`;
  const reached = `${taken}; ${evicted} evicted, ${refused} reviews refused`;
  const { last } = refusals;
  const rows = last === undefined ? [] : wrap(`${last.guard}: ${last.message}`, width - labelLength).slice(0, 2);
  const style = storm.endedMs === undefined ? "yellow" : "dim";
  const lines = rows.map((line, index) => `${(index === 0 ? "refused" : "").padEnd(labelLength)}${paint(style, line)}`);
  return pad([cut(`drains        ${reached}`, width), ...lines], 3);
}

/** Three lines: the progress of the downscale, and why the last request was refused. */
function drawDownscale({ downscale }: Play, width: number, paint: Paint): string[] {
  if (downscale === undefined) return [];
  const { reached, last } = downscale;
  const rows = last === undefined ? [] : wrap(last, width - labelLength).slice(0, 2);
  const style = downscale.endedMs === undefined ? "yellow" : "dim";
  const lines = rows.map((line, index) => `${(index === 0 ? "refused" : "").padEnd(labelLength)}${paint(style, line)}`);
  return pad([cut(`downscale     ${reached}`, width), ...lines], 3);
}

function drawCounters({ stage, total }: Play, width: number): string {
  const { sent, lost } = stage.events;
  const requests = countRequests(stage.served.requests()).total;
  const counted = `${requests} API requests, ${(requests / total).toFixed(1)} a pod`;
  return cut(`watch events  ${lost} of ${sent + lost} lost on purpose; ${counted}`, width);
}

function drawPromises({ stage }: Play, width: number, paint: Paint): string {
  const { violations, deletions } = stage.referee;
  if (violations[0] !== undefined) {
    return paint("red", cut(`promises      ${violations[0].invariant}: ${violations[0].message}`, width));
  }
  const { all, evicted } = deletions;
  return cut(`promises      Z1 to Z4, E1 and E2 kept by ${all - evicted} deletions and ${evicted} evictions`, width);
}

function drawEntries({ journal }: Play, width: number, paint: Paint): string[] {
  const lines = journal.last(entriesShown).map(({ atMs, what }) => {
    return paint("dim", cut(`${seconds(atMs).padStart(6)}  ${what}`, width));
  });
  return pad(lines, entriesShown);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function pad(lines: readonly string[], length: number): string[] {
  return [...lines, ...Array.from({ length: length - lines.length }, () => "")];
}
