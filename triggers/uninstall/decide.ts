/** Whether Sluice may be uninstalled: no object may keep a finalizer that no process would remove any more. Pure. */

/** An object with a finalizer of ours. */
export interface LeftObject {
  /** Such as `persistentvolumeclaims data-db-0 in mimir`. */
  readonly shown: string;
  /** Those of ours alone. */
  readonly finalizers: readonly string[];
}

/** How a finalizer of ours is removed. */
export interface FinalizerEnd {
  readonly finalizer: string;
  /** The setting that has to be `remove`. */
  readonly setting: string;
  /** The functions that then take it off. */
  readonly functions: readonly string[];
  /** `unserved`: this process serves none of them. */
  readonly state: "keep" | "remove" | "unserved";
}

/** `going`: the served functions remove all that is left, so that a later check may find nothing. */
export interface UninstallVerdict {
  readonly kind: "clear" | "going" | "kept";
  readonly lines: readonly string[];
}

/** The most objects that a message names. */
const mostNamed = 20;

/** Decides whether Helm may delete the release. `where`: the namespaces that were read, by their names in messages. */
export function decideUninstall(
  where: string,
  left: readonly LeftObject[],
  ends: readonly FinalizerEnd[],
): UninstallVerdict {
  if (left.length === 0) return { kind: "clear", lines: [`no object of ${where} has a finalizer of Sluice`] };
  const endOf = (finalizer: string) => ends.find((one) => one.finalizer === finalizer);
  const names = left.slice(0, mostNamed).map(({ shown, finalizers }) => {
    const shownEnds = finalizers.map((finalizer) => `${finalizer}, ${describeEnd(endOf(finalizer))}`);
    return `${shown} has ${shownEnds.join("; and ")}`;
  });
  const more = left.length > mostNamed ? [`and ${left.length - mostNamed} more`] : [];
  const found = new Set(left.flatMap(({ finalizers }) => finalizers));
  const isGoing = [...found].every((finalizer) => endOf(finalizer)?.state === "remove");
  const count = left.length === 1 ? "1 object has" : `${left.length} objects have`;
  return {
    kind: isGoing ? "going" : "kept",
    lines: [
      `${count} a finalizer of Sluice. Without Sluice the API server would never delete such an object:`,
      ...names,
      ...more,
      isGoing
        ? "Sluice is set to remove these finalizers, and has not done so yet. Read its log, and try again"
        : `${remedyFor(found, ends)}, wait until Sluice has removed these finalizers, and try again`,
    ],
  };
}

function describeEnd(end: FinalizerEnd | undefined): string {
  if (end === undefined) return "which this version of Sluice does not know";
  const { setting, functions, state } = end;
  if (state === "unserved") return `which only ${functions.join(" or ")} takes off, with ${setting}=remove`;
  return state === "remove" ? `which goes because ${setting} is remove` : `which ${setting}=remove takes off`;
}

function remedyFor(found: ReadonlySet<string>, ends: readonly FinalizerEnd[]): string {
  const needed = ends.filter(({ finalizer, state }) => found.has(finalizer) && state !== "remove");
  const settings = [...new Set(needed.map(({ setting }) => `${setting}=remove`))];
  const missing = needed.filter(({ state }) => state === "unserved").map(({ functions }) => functions.join(" or "));
  const serve = missing.length === 0 ? "" : `serve ${[...new Set(missing)].join(" and ")} as well, `;
  if (settings.length === 0) return "serve the version of Sluice that put them there";
  const byHelm = "set uninstall.prepare=true in the chart, after `helm rollback` to the revision that is there";
  return `${serve}${byHelm}, or ${settings.join(" and ")} without the chart`;
}
