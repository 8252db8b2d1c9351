/** Which Secrets with expected files are known, since when nothing names one of them, and which are removed. Pure. */

import { mostChecks, type NamedConfig } from "../shared/annotations/restart-files.ts";

/** A Secret as a GET shows it. */
export type ReadConfig =
  | { readonly kind: "there"; readonly uid: string; readonly resourceVersion: string; readonly isLabelled: boolean }
  | { readonly kind: "missing" }
  /** `message`: which right is missing. */
  | { readonly kind: "forbidden"; readonly message: string };

export interface ConfigSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** What the ledger knows, by name. */
  readonly known: ReadonlyMap<string, NamedConfig>;
  /** The Secrets that StatefulSets of the group expect, and those that the ledger knows, by name. */
  readonly read: ReadonlyMap<string, ReadConfig>;
  /** Every Secret that a StatefulSet of the namespace names, and, where one is due, a pod. */
  readonly named: ReadonlySet<string>;
  readonly isRestarting: boolean;
}

/** A Secret to remove, by the read that permits it. */
export interface DueConfig {
  readonly name: string;
  readonly uid: string;
}

export interface ConfigVerdict {
  readonly guard: string;
  readonly message: string;
  /** What the ledger is to know from now on. */
  readonly configs: ReadonlyMap<string, NamedConfig>;
  readonly isChanged: boolean;
  readonly due: readonly DueConfig[];
  readonly forbidden: readonly string[];
}

/** For so long nothing may name a Secret before it is removed, in milliseconds. */
export const unnamedForMs = 900_000;
/**
 * Sweeps are five minutes apart at most, in milliseconds. Where one does not come, a StatefulSet may have named a Secret
 * meanwhile, and nothing has seen that: its time begins anew.
 */
const mostBetweenSweepsMs = 360_000;
/** A hundred changes of files within 15 minutes are more than any group makes, and the ledger has other uses for its room. */
const mostConfigs = 100;

/** A Secret that cannot be read, or whose times are of the future, stays. */
export function decide(snapshot: ConfigSnapshot): ConfigVerdict {
  const { known, read } = snapshot;
  const configs = new Map<string, NamedConfig>();
  const due: DueConfig[] = [];
  const forbidden: string[] = [];
  for (const [name, one] of read) {
    if (one.kind === "forbidden") forbidden.push(one.message);
    const next = nextOf(snapshot, name, one);
    if (next === undefined || configs.size >= mostConfigs) continue;
    configs.set(name, next);
    if (one.kind === "there" && isDue(next, snapshot)) due.push({ name, uid: next.uid });
  }
  const isChanged = configs.size !== known.size || [...configs].some(([name, next]) => differs(known.get(name), next));
  return { ...verdictOf(snapshot, configs, due, forbidden), configs, isChanged, due, forbidden };
}

/** Undefined: it is not known, or not any more. */
function nextOf(snapshot: ConfigSnapshot, name: string, read: ReadConfig): NamedConfig | undefined {
  const { known, named, nowMs, isRestarting } = snapshot;
  const before = known.get(name);
  const isNamed = named.has(name);
  if (read.kind === "forbidden") return before && isNamed ? { uid: before.uid } : before;
  if (read.kind === "missing" || !read.isLabelled) return undefined;
  if (isNamed) return { uid: read.uid };
  // It was made anew under the same name, and nothing has named it.
  if (before?.uid !== read.uid) return undefined;
  const { uid, unnamedMs, checkedMs = Number.POSITIVE_INFINITY, checks = 0 } = before;
  // A clock that was set back would otherwise prolong the time of a Secret without an end.
  if (unnamedMs === undefined || unnamedMs > nowMs || !isContinued(checkedMs, nowMs))
    return isRestarting ? before : { uid, unnamedMs: nowMs, checks: 1, checkedMs: nowMs };
  const counted = isRestarting ? checks : Math.min(checks + 1, mostChecks);
  return { uid, unnamedMs, checks: counted, checkedMs: nowMs };
}

function isContinued(checkedMs: number, nowMs: number): boolean {
  return checkedMs <= nowMs && nowMs - checkedMs <= mostBetweenSweepsMs;
}

/** A clock that was set forward makes no Secret due: between three reads there are two sweeps. */
function isDue(
  { unnamedMs = Number.POSITIVE_INFINITY, checks = 0 }: NamedConfig,
  { nowMs, isRestarting }: ConfigSnapshot,
): boolean {
  return !isRestarting && checks >= mostChecks && nowMs - unnamedMs >= unnamedForMs;
}

/** True where a Secret may be due after one more sweep, so that pods are read as well. */
export function mayBeDue({ unnamedMs = Number.POSITIVE_INFINITY, checks = 0 }: NamedConfig, nowMs: number): boolean {
  return checks >= mostChecks - 1 && nowMs - unnamedMs >= unnamedForMs;
}

function differs(one: NamedConfig | undefined, other: NamedConfig): boolean {
  if (one?.uid !== other.uid || one.unnamedMs !== other.unnamedMs) return true;
  return one.checks !== other.checks || one.checkedMs !== other.checkedMs;
}

function verdictOf(
  { isRestarting }: ConfigSnapshot,
  configs: ReadonlyMap<string, NamedConfig>,
  due: readonly DueConfig[],
  [missing]: readonly string[],
): Pick<ConfigVerdict, "guard" | "message"> {
  const list = (names: readonly string[]) =>
    names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
  if (due.length > 0)
    return { guard: "config-removing", message: `nothing names ${list(due.map(({ name }) => name))} any more` };
  if (missing !== undefined) return { guard: "config-forbidden", message: missing };
  const unnamed = [...configs].filter(([, { unnamedMs }]) => unnamedMs !== undefined).map(([name]) => name);
  if (unnamed.length === 0) return { guard: "done", message: "every Secret that is known is named" };
  if (isRestarting)
    return {
      guard: "config-restarting",
      message: `the restart of a pod is under way, and ${list(unnamed)} stays meanwhile`,
    };
  return { guard: "config-unnamed", message: `nothing names ${list(unnamed)}: 15 minutes after that it is removed` };
}
