/** What happened in a trial: a line for each event that helps a reader to find a cause. */
import type { PodSighting, Sighting } from "./check-history.ts";

interface Line {
  readonly atMs: number;
  readonly text: string;
}

/** @param journal the acts of users @param deleted the uids of pods whose deletion Sluice requested */
export function describe(
  sightings: readonly Sighting[],
  journal: readonly Line[],
  deleted: ReadonlySet<string>,
): readonly string[] {
  const known = new Map<string, PodSighting>();
  const wanted = new Map<string, string | undefined>();
  const lines = [...sightings]
    .sort((one, other) => one.revision - other.revision)
    .flatMap((seen): Line[] => {
      const text = seen.kind === "pod" ? describePod(seen, known, deleted) : describeStatefulSet(seen, wanted);
      return text === undefined ? [] : [{ atMs: seen.atMs, text: `${seen.revision} ${text}` }];
    });
  const all = [...lines, ...journal.map(({ atMs, text }) => ({ atMs, text: `user: ${text}` }))];
  const startMs = all.reduce((least, { atMs }) => Math.min(least, atMs), Number.POSITIVE_INFINITY);
  return all
    .sort((one, other) => one.atMs - other.atMs)
    .map(({ atMs, text }) => `${((atMs - startMs) / 1_000).toFixed(2).padStart(7)} s  ${text}`);
}

function describeStatefulSet(
  { name, type, updateRevision }: Extract<Sighting, { kind: "statefulset" }>,
  wanted: Map<string, string | undefined>,
): string | undefined {
  if (type === "DELETED") {
    wanted.delete(name);
    return `${name} is gone`;
  }
  if (wanted.has(name) && wanted.get(name) === updateRevision) return undefined;
  wanted.set(name, updateRevision);
  return `${name} wants ${updateRevision ?? "nothing yet"}`;
}

function describePod(
  seen: PodSighting,
  known: Map<string, PodSighting>,
  deleted: ReadonlySet<string>,
): string | undefined {
  const before = known.get(seen.uid);
  if (seen.type === "DELETED") {
    known.delete(seen.uid);
    const unseen = before?.terminating === false ? `, ${whoTook(seen, deleted)}` : "";
    return `${seen.name} is gone${unseen}`;
  }
  known.set(seen.uid, seen);
  if (before === undefined) return `${seen.name} comes, of ${seen.podRevision}${seen.orphaned ? ", an orphan" : ""}`;
  if (seen.terminating && !before.terminating) {
    return `${seen.name} goes, ${before.ready ? "Ready" : "not Ready"}, ${whoTook(seen, deleted)}`;
  }
  if (seen.ready !== before.ready) return `${seen.name} is ${seen.ready ? "Ready" : "not Ready"}`;
  if (seen.orphaned !== before.orphaned) return `${seen.name} is ${seen.orphaned ? "an orphan" : "adopted"}`;
  return undefined;
}

function whoTook({ evicted, uid }: PodSighting, deleted: ReadonlySet<string>): string {
  if (evicted) return "evicted";
  return deleted.has(uid) ? "deleted by Sluice" : "deleted by another client";
}
