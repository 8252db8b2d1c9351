/**
 * Which kinds the API server serves, and as what: asked when a caller needs one, and remembered for a while. It has no clock
 * and no connection of its own, so that the worlds of tests remember as production does.
 */
import { BoundedMap } from "../base/bounded-map.ts";
import { type ClusterError, hasCode, KindNotServedError } from "./cluster.ts";
import { aborted } from "./errors.ts";
import type { DiscoveredResource } from "./objects.ts";
import { groupOf, isDiscovered, resourceAt, type ServedKind } from "./resources.ts";

/** GETs a document of discovery; `label` is the path that metrics count it as. Rejects with a {@link ClusterError}. */
type ReadDocument = (path: DiscoveredResource, label: string) => Promise<unknown>;

interface ServedKinds {
  /** Monotonic time at which the group was asked for. */
  readonly askedMs: number;
  /** By kind: as the preferred version serves it, or else the first one that does. */
  readonly kinds: ReadonlyMap<string, ServedKind>;
  /** Why a version could not be read: what is missing here may be served by that. Absent: all of them were. */
  readonly unread?: ClusterError;
}

/** For so long a kind that is served is not asked for again, in milliseconds: CRDs seldom go, or get another version. */
const foundForMs = 300_000;
/** The same for a kind that is not served, because a user may be about to install its CRD, and for a kind after a 404. */
const missingForMs = 5_000;
/** The most groups that are remembered. Users name them in annotations; beyond the bound the least recently used is forgotten. */
const rememberedGroups = 100;
/** What can be the name of a group, and a part of a path that is only that. */
const groupName = /^[a-z0-9][-a-z0-9.]{0,252}$/;

/** Of one group. */
interface KindMemory {
  /** Request that is under way; no caller asks for the group beside it. */
  reading: Promise<ServedKinds> | undefined;
  answer: ServedKinds | undefined;
  /** A request for one of its kinds was answered with 404: the object is gone, or its whole type is. */
  isDoubted: boolean;
}

export class Discovery {
  readonly #read: ReadDocument;
  readonly #nowMs: () => number;
  readonly #groups = new BoundedMap<string, KindMemory>(rememberedGroups);

  constructor(options: { readonly read: ReadDocument; readonly nowMs: () => number }) {
    this.#read = options.read;
    this.#nowMs = options.nowMs;
  }

  /** See `Cluster.resourceOf`. */
  async resourceOf(group: string, kind: string, signal?: AbortSignal): Promise<ServedKind> {
    const asked = { verb: "get", resource: kind, path: group === "" ? "/api" : `/apis/${group}` };
    if (signal?.aborted) throw aborted(asked);
    if (group !== "" && !groupName.test(group)) throw new KindNotServedError(group, kind);
    const memory = this.#memoryOf(group);
    const remembered = this.#remembered(memory, kind);
    const givenUp = () => aborted(asked);
    const { kinds, unread } = remembered ?? (await unlessAborted(this.#readOnce(group, memory), signal, givenUp));
    const found = kinds.get(kind);
    if (found !== undefined) return found;
    throw unread ?? new KindNotServedError(group, kind);
  }

  /**
   * A request for an object of this type was answered with 404: what is remembered of the type is asked again, but not twice in
   * five seconds, since most often the object alone is gone. Types of the table stay.
   */
  doubt(resource: string): void {
    if (!isDiscovered(resource)) return;
    const memory = this.#groups.get(groupOf(resource));
    if (memory !== undefined) memory.isDoubted = true;
  }

  #remembered({ answer, isDoubted }: KindMemory, kind: string): ServedKinds | undefined {
    if (answer === undefined) return undefined;
    const isSure = answer.kinds.has(kind) && answer.unread === undefined && !isDoubted;
    return this.#nowMs() - answer.askedMs < (isSure ? foundForMs : missingForMs) ? answer : undefined;
  }

  /** The memory of a group, which becomes the most recently used one. */
  #memoryOf(group: string): KindMemory {
    const memory = this.#groups.get(group) ?? { reading: undefined, answer: undefined, isDoubted: false };
    this.#groups.delete(group);
    this.#groups.set(group, memory);
    return memory;
  }

  #readOnce(group: string, memory: KindMemory): Promise<ServedKinds> {
    memory.reading ??= this.#readNow(group, memory).finally(() => {
      memory.reading = undefined;
    });
    return memory.reading;
  }

  async #readNow(group: string, memory: KindMemory): Promise<ServedKinds> {
    memory.isDoubted = false;
    memory.answer = await readServedKinds(group, this.#nowMs(), this.#read);
    return memory.answer;
  }
}

/** Waits for a promise that callers share, until the signal of this caller is aborted. */
function unlessAborted<T>(shared: Promise<T>, signal: AbortSignal | undefined, givenUp: () => Error): Promise<T> {
  if (signal === undefined) return shared;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onAbort = () => reject(givenUp());
  signal.addEventListener("abort", onAbort, { once: true });
  shared.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  return promise;
}

/** More versions than any group has. */
const mostVersions = 20;

interface ResourceEntry {
  readonly name?: string;
  readonly kind?: string;
  readonly namespaced?: boolean;
}

/** Something between us and the API server may answer with any JSON. */
type Document = {
  readonly versions?: readonly ({ readonly version?: string } | null)[];
  readonly preferredVersion?: { readonly version?: string } | null;
  readonly resources?: readonly (ResourceEntry | null)[];
} | null;

/** Reads all that a group serves, one request after the other; nothing of a group that is not there. Throws ClusterError. */
async function readServedKinds(group: string, askedMs: number, read: ReadDocument): Promise<ServedKinds> {
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
  return { askedMs, kinds, ...(unread && { unread }) };
}

/** The preferred version first. The core group is older than groups are: it has one version, and no document that prefers it. */
async function readVersions(group: string, read: ReadDocument): Promise<readonly string[]> {
  if (group === "") return ["v1"];
  const document = (await read(`/apis/${group}`, "/apis/GROUP").catch((error: ClusterError) => {
    if (!hasCode(error, 404)) throw error;
  })) as Document | undefined;
  const named = [document?.preferredVersion, ...listOf(document?.versions)].flatMap((one) => one?.version ?? []);
  return [...new Set(named)].slice(0, mostVersions);
}

function kindsIn(
  document: Document | undefined,
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
