/** What an API group serves, as the API server's discovery tells: which versions, and of each which kinds. */
import { type ClusterError, hasCode } from "./cluster.ts";
import { type DiscoveredResource, resourceAt, type ServedKind } from "./resources.ts";

/** GETs a document of discovery; `label` is the path that metrics count it as. Rejects with a {@link ClusterError}. */
export type ReadDocument = (path: DiscoveredResource, label: string) => Promise<unknown>;

export interface ServedKinds {
  /** By kind: as the preferred version serves it, or else the first one that does. */
  readonly kinds: ReadonlyMap<string, ServedKind>;
  /** Why a version could not be read: what is missing here may be served by that. Absent: all of them were. */
  readonly unread?: ClusterError;
}

/** More versions than any group has. */
const mostVersions = 20;

interface VersionEntry {
  readonly version?: string;
}

interface ResourceEntry {
  readonly name?: string;
  readonly kind?: string;
  readonly namespaced?: boolean;
}

/** Something between us and the API server may answer with any JSON. */
type Document =
  | {
      readonly versions?: readonly (VersionEntry | null)[];
      readonly preferredVersion?: VersionEntry | null;
      readonly resources?: readonly (ResourceEntry | null)[];
    }
  | null
  | undefined;

/** Reads all that a group serves, one request after the other; nothing of a group that is not there. Throws ClusterError. */
export async function readServedKinds(group: string, read: ReadDocument): Promise<ServedKinds> {
  const kinds = new Map<string, ServedKind>();
  let unread: ClusterError | undefined;
  for (const version of await readVersions(group, read)) {
    const apiPath: DiscoveredResource = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    const document = await read(apiPath, "/apis/GROUP/VERSION").catch((error: ClusterError) => {
      // A version may go between the one answer and the other.
      if (!hasCode(error, 404)) unread ??= error;
    });
    for (const kind of kindsIn(document as Document, { apiPath, group, version }))
      if (!kinds.has(kind.kind)) kinds.set(kind.kind, kind);
  }
  return unread === undefined ? { kinds } : { kinds, unread };
}

/** The preferred version first. The core group is older than groups are: it has one version, and no document that prefers it. */
async function readVersions(group: string, read: ReadDocument): Promise<readonly string[]> {
  if (group === "") return ["v1"];
  const document = (await read(`/apis/${group}`, "/apis/GROUP").catch((error: ClusterError) => {
    if (!hasCode(error, 404)) throw error;
  })) as Document;
  const named = [document?.preferredVersion, ...listOf(document?.versions)].flatMap((one) => one?.version ?? []);
  return [...new Set(named)].slice(0, mostVersions);
}

function kindsIn(
  document: Document,
  where: { readonly apiPath: DiscoveredResource; readonly group: string; readonly version: string },
): ServedKind[] {
  const served = listOf(document?.resources);
  const names = new Set(served.map((one) => one?.name));
  return served.flatMap((one) => {
    const { name: plural = "", kind = "", namespaced: isNamespaced = false } = one ?? {};
    // What has a slash is a subresource, and its kind is that of what is posted there.
    if (plural === "" || kind === "" || plural.includes("/")) return [];
    const resource = resourceAt(where.apiPath, plural);
    return [{ ...where, resource, plural, kind, isNamespaced, hasScale: names.has(`${plural}/scale`) }];
  });
}

function listOf<T>(list: readonly T[] | undefined): readonly T[] {
  return Array.isArray(list) ? list : [];
}
