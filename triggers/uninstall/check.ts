/** Finds the objects that an uninstall would leave with a finalizer of ours, and waits while finalizers are being removed. */
import { ours } from "../../functions/shared/annotations/paths.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { Definition } from "../../functions/shared/contract/definition.ts";
import {
  apiMessage,
  type Cluster,
  ClusterError,
  isKnown,
  isRightMissing,
  isTransient,
  lackOf,
  type OtherObject,
  type Resource,
} from "../../functions/shared/kubernetes/cluster.ts";
import { find, listIfServed } from "../../functions/shared/kubernetes/find.ts";
import { findOwnerTypes } from "../../functions/shared/reconcile/owner-kinds.ts";
import { type Settings, settingsTable } from "../settings/settings.ts";
import { decideUninstall, type FinalizerEnd, type LeftObject, type UninstallVerdict } from "./decide.ts";

interface UninstallCheck {
  readonly cluster: Pick<Cluster, "get" | "list" | "resourceOf"> & Clock;
  readonly settings: Settings;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  /** Also of functions that are not served: these may have left something behind. */
  readonly definitions: readonly Definition[];
}

interface CheckResult {
  readonly mayGo: boolean;
  readonly lines: readonly string[];
}

/** How long it waits for the API server, and for finalizers that are being removed, in milliseconds. */
const patienceMs = 120_000;
const pauseMs = 2_000;

/**
 * True only if the API server has answered that no object of the served namespaces has a finalizer of ours. It reads the types
 * of which the served functions may change finalizers. It reads again for two minutes while the API server does not answer, while
 * all that is left is just being taken off, and while a namespace is being deleted that it may no longer read. It never throws.
 */
export async function checkUninstall(check: UninstallCheck): Promise<CheckResult> {
  const { cluster } = check;
  const deadlineMs = cluster.monotonicMs() + patienceMs;
  for (;;) {
    const found = await observe(check);
    const isFinal = found.kind !== "going" && found.kind !== "unknown";
    if (isFinal || cluster.monotonicMs() >= deadlineMs) return { mayGo: found.kind === "clear", lines: found.lines };
    await cluster.sleep(pauseMs);
  }
}

/** `unknown`: a later look may be answered. */
type Found = UninstallVerdict | { readonly kind: "unknown" | "refused"; readonly lines: readonly string[] };

/** A right that went with a namespace that is being deleted, while objects of the namespace may still be there. */
class EndingNamespaceError extends Error {}

async function observe(check: UninstallCheck): Promise<Found> {
  const { namespaces, settings, definitions } = check;
  const where = namespaces === undefined ? "all namespaces" : `namespace ${namespaces.join(", ")}`;
  try {
    return decideUninstall(where, await leftObjects(check), endsOf(definitions, settings));
  } catch (error) {
    const unknown = `whether an object of ${where} has a finalizer of Sluice is not known`;
    if (error instanceof EndingNamespaceError) return { kind: "unknown", lines: [`${unknown}: ${error.message}`] };
    if (!(error instanceof ClusterError)) throw error;
    const why = isRightMissing(error) ? lackOf(error) : apiMessage(error);
    return { kind: isTransient(error) ? "unknown" : "refused", lines: [`${unknown}: ${why}`] };
  }
}

/** Throws ClusterError, and EndingNamespaceError. */
async function leftObjects({ cluster, settings, namespaces, definitions }: UninstallCheck): Promise<LeftObject[]> {
  const served = definitions.filter(({ name }) => settings.functions.includes(name));
  const types = await typesOf(cluster, settings, served);
  const lists = types.flatMap((resource) =>
    (namespaces ?? [undefined]).map(async (namespace) => {
      const items: readonly OtherObject[] = await listIfThere(cluster, resource, namespace);
      return items.map(({ kind, metadata }) => {
        const type = isKnown(resource) ? resource : (kind ?? resource);
        const finalizers = metadata.finalizers?.filter((one) => one.startsWith(ours)) ?? [];
        return { shown: `${type} ${metadata.name} in ${metadata.namespace}`, finalizers };
      });
    }),
  );
  return (await Promise.all(lists)).flat().filter(({ finalizers }) => finalizers.length > 0);
}

/**
 * The objects of a type, by a consistent LIST. Because a RoleBinding goes with its namespace, the API server answers 403 for a
 * namespace that is gone: it has no objects. Throws ClusterError, and EndingNamespaceError.
 */
async function listIfThere(
  cluster: UninstallCheck["cluster"],
  resource: Resource,
  namespace: string | undefined,
): Promise<readonly OtherObject[]> {
  try {
    return await listIfServed(cluster, resource, namespace);
  } catch (error) {
    if (namespace === undefined || !isRightMissing(error)) throw error;
    const found = await find(cluster, "namespaces", { namespace: "", name: namespace });
    if (found === undefined) return [];
    if (found.metadata.deletionTimestamp === undefined) throw error;
    throw new EndingNamespaceError(
      `namespace ${namespace} is being deleted, and Sluice's right to list ${error.resource} has gone with it. If the ` +
        "namespace stays, finalizers of Sluice may hold it: the overlay `outside` removes them",
    );
  }
}

/**
 * The types that the served functions put finalizers on, or take them off, by the changes that they declare: their accounts may
 * list these. A function that was served before may have left some. None where no function keeps objects. Throws ClusterError.
 */
async function typesOf(
  cluster: UninstallCheck["cluster"],
  { skipLabelKinds }: Settings,
  served: readonly Definition[],
): Promise<readonly Resource[]> {
  if (served.every(({ finalizers = [] }) => finalizers.length === 0)) return [];
  const isFinalized = ({ changes = [] }: { readonly changes?: readonly string[] }) =>
    changes.some((path) => path.startsWith("metadata.finalizers["));
  const known = served.flatMap(({ needs }) => needs.filter(isFinalized).map(({ resource }) => resource));
  const hasOwners = served.some(({ kindNeeds = [] }) => kindNeeds.some(isFinalized));
  const owners = hasOwners ? (await findOwnerTypes(cluster, skipLabelKinds)).resources : [];
  return [...new Set<Resource>([...known.filter(isKnown), ...owners])];
}

function endsOf(definitions: readonly Definition[], settings: Settings): readonly FinalizerEnd[] {
  const all = definitions.flatMap(({ name, finalizers = [] }) => finalizers.map((one) => ({ ...one, by: name })));
  return [...Map.groupBy(all, ({ name }) => name)].map(([finalizer, keepers]) => {
    const [{ setting } = { setting: { name: "" } }] = keepers;
    const functions = keepers.map(({ by }) => by);
    const isServed = functions.some((name) => settings.functions.includes(name));
    const state = settingOf(settings, setting.name) === "remove" ? "remove" : "keep";
    return { finalizer, setting: setting.name, functions, state: isServed ? state : "unserved" };
  });
}

function settingOf(settings: Settings, name: string): unknown {
  const [field] = Object.entries(settingsTable).find(([, one]) => one.name === name) ?? [];
  return field === undefined ? undefined : settings[field as keyof Settings];
}
