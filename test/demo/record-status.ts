/**
 * Records what the status is decided by in a run of the demo: `node test/demo/record-status.ts`. It takes a minute. The
 * simulation has a recorder of its own.
 */
import { createListReader } from "../../functions/shared/cache/listing.ts";
import { parseCertificates } from "../../functions/shared/certificates/secret.ts";
import type { PresentedCertificate } from "../../functions/shared/contract/definition.ts";
import type { ParkedStatus, Status } from "../../functions/shared/contract/status.ts";
import { decide } from "../../functions/show-status/decide.ts";
import type { SeenParked, StatusSnapshot } from "../../functions/show-status/snapshot.ts";
import type { World } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { Journal } from "../support/journal.ts";
import { guards, writeSnapshot } from "../support/recorded-status.ts";
import { namespace } from "../support/served-group.ts";
import { openObserver } from "../support/status-observer.ts";
import { runDemo } from "./demo.ts";
import { readOptions } from "./options.ts";
import type { Phase, Play } from "./play.ts";

interface Recording {
  readonly phases: readonly Phase[];
  /** The first moment of these phases for which it is true is recorded. */
  readonly isIt: (status: Status) => boolean;
}

const zonesOf = ({ groups }: Status) => groups.flatMap(({ zones }) => zones);
const has = (status: Status, wanted: string) =>
  zonesOf(status).some(({ cells }) => cells.some(({ cell }) => cell === wanted));

const recordings: Readonly<Record<string, Recording>> = {
  "the demo at rest": { phases: ["standing"], isIt: ({ groups }) => groups.length > 0 },
  "the demo that rolls": { phases: ["rolling"], isIt: (status) => has(status, "outdated") && has(status, "ready") },
  "the demo with a broken pod": {
    phases: ["broken"],
    isIt: (status) => has(status, "not ready") && status.groups.some(({ functions }) => functions.length > 0),
  },
  "the demo whose nodes are drained": {
    phases: ["storm"],
    isIt: ({ parked, waiting, events }) =>
      parked.length > 1 && (waiting ?? []).some(({ refused }) => refused) && (events ?? []).length > 4,
  },
  "the demo that becomes smaller": {
    phases: ["downscale"],
    isIt: (status) => has(status, "claimed") || new Set(zonesOf(status).map(({ wanted }) => wanted)).size > 1,
  },
  "the demo at its end": { phases: ["rolled"], isIt: ({ events }) => (events ?? []).length > 8 },
};

/** What the demo's Sluice parks is in its own memory, and its page has it. */
async function readParked({ sluice: { pageUrl } }: Play): Promise<readonly SeenParked[]> {
  if (pageUrl === undefined) return [];
  const answer = await fetch(`${pageUrl}?format=json`);
  const { parked } = (await answer.json()) as { readonly parked: readonly ParkedStatus[] };
  return parked.map(({ namespace, group, node, sentence: message, since, ...rest }) => {
    const times = { node: node ?? undefined, sinceMs: Date.parse(since) };
    return { key: { namespace, group }, ...rest, message, ...times };
  });
}

/** The certificate that it presents stands in a Secret of its own. */
function presentedIn({ store }: World): PresentedCertificate | undefined {
  for (const secret of store.list("secrets", { namespace }).items) {
    const { presented } = parseCertificates(secret);
    if (presented === undefined) continue;
    const { notBeforeMs, notAfterMs } = presented;
    return { object: secret.metadata.name, namespace, notBeforeMs, notAfterMs };
  }
  return undefined;
}

const missing = new Set(Object.keys(recordings));

function note(phase: Phase, snapshot: StatusSnapshot): void {
  const status = decide({ ...snapshot, guards });
  for (const name of missing) {
    const recording = recordings[name];
    if (recording?.phases.includes(phase) !== true || !recording.isIt(status)) continue;
    writeSnapshot(name.replaceAll(" ", "-"), snapshot);
    missing.delete(name);
    console.log(`${name}: recorded`);
  }
}

/** Each observation has an observer of its own, because one observer lists ledgers and Events only every few seconds. */
async function observeOften(play: Play, isOver: () => boolean): Promise<void> {
  const { world } = play.stage;
  const cluster = createWorldCluster(world);
  while (!isOver()) {
    const { phase } = play;
    const observe = openObserver(cluster, createListReader(cluster, [namespace]));
    const [snapshot, parked] = await Promise.all([observe(), readParked(play).catch(() => [])]);
    note(phase, { ...snapshot, parked, certificate: presentedIn(world) });
    await cluster.sleep(100);
  }
}

const { options } = readOptions(["--headless", "--page", "--drop", "0"]);
let observing: Promise<void> | undefined;
let isOver = false;
const play = await runDemo({
  ...options,
  journal: new Journal(() => undefined),
  signal: new AbortController().signal,
  show(shown) {
    observing ??= observeOften(shown, () => isOver);
  },
  async linger(ended) {
    while (missing.has("the demo at its end")) await createWorldCluster(ended.stage.world).sleep(100);
    isOver = true;
    await observing;
  },
});
for (const name of missing) console.log(`${name}: the run did not have it`);
process.exitCode = play.outcome === "rolled" && missing.size === 0 ? 0 : 1;
