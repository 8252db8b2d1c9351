/** LIST over HTTP: how old the answer may be, and its pages. */

import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { type ApiStatusError, badRequest, expired, invalidKind, unknownField } from "./api-errors.ts";
import type { ApiRequest } from "./http-request.ts";
import { type StoredObject, sourceOf, traitsOf } from "./objects.ts";
import { keyOf } from "./store.ts";
import type { World } from "./world.ts";

interface Snapshot {
  readonly items: readonly StoredObject[];
  readonly revision: string;
}

/**
 * Time for which the API server waits for a future revision, and number of lists that can be paged through at the same time.
 */
const patienceMs = 3000;
const keptSnapshots = 200;

export class ListPages {
  readonly #world: World;
  /** First pages of lists that clients are paging through, by their query and revision; the oldest first. */
  readonly #snapshots = new Map<string, Snapshot>();

  constructor(world: World) {
    this.#world = world;
  }

  /**
   * The answer to a LIST.
   *
   * @throws ApiStatusError 400, 410, 422, 504
   */
  async list(asked: ApiRequest): Promise<object> {
    const { resource, query } = asked;
    checkParameters(resource, query);
    const limit = Number(query.get("limit") ?? 0);
    const token = query.get("continue");
    const snapshot = token ? this.#snapshotOf(asked, token) : await this.#fresh(asked);
    const first = token
      ? snapshot.items.findIndex((item) => startKey(asked, item) >= parseToken(resource, token).start)
      : 0;
    const rest = first < 0 ? [] : snapshot.items.slice(first);
    const items = limit > 0 ? rest.slice(0, limit) : rest;
    const last = items.at(-1);
    const more = items.length < rest.length && last !== undefined;
    if (more) this.#keep(asked, snapshot);
    const selects = query.get("labelSelector") || query.get("fieldSelector");
    const { apiVersion, kind, isCustom } = traitsOf(resource);
    const metadata = {
      resourceVersion: snapshot.revision,
      ...(more ? { continue: makeToken(snapshot.revision, `${startKey(asked, last)}\0`) } : undefined),
      ...(more && !selects ? { remainingItemCount: rest.length - items.length } : undefined),
    };
    if (asked.wantsMetadata) {
      const partial = items.map((item) => ({ metadata: item.metadata }));
      return { kind: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1", metadata, items: partial };
    }
    return {
      kind: `${kind}List`,
      apiVersion,
      metadata,
      // Items of built-in lists have neither kind nor apiVersion of their own.
      items: isCustom ? items : items.map(({ kind: _k, apiVersion: _v, ...item }) => item),
    };
  }

  async #fresh(asked: ApiRequest): Promise<Snapshot> {
    const { resource, namespace, query } = asked;
    const wanted = query.get("resourceVersion") || "0";
    const { store, timeline } = this.#world;
    const deadline = timeline.nowMs() + patienceMs;
    while (Number(wanted) > store.revision && timeline.nowMs() < deadline) {
      await new Promise<void>((resolve) => timeline.after(20, resolve));
    }
    if (query.get("resourceVersionMatch") === "Exact" && Number(wanted) < store.revision) {
      throw expired("list", resource, `too old resource version: ${wanted}`);
    }
    const { items, resourceVersion } = store.list(resource, {
      ...(namespace === undefined ? undefined : { namespace }),
      ...selectorOf(query),
      notOlderThan: wanted,
    });
    const matches = fieldMatcher(resource, query);
    return { items: matches === undefined ? items : items.filter(matches), revision: resourceVersion };
  }

  #keep(asked: ApiRequest, snapshot: Snapshot): void {
    const id = snapshotId(asked, snapshot.revision);
    this.#snapshots.delete(id);
    this.#snapshots.set(id, snapshot);
    for (const oldest of this.#snapshots.keys()) {
      if (this.#snapshots.size <= keptSnapshots) break;
      this.#snapshots.delete(oldest);
    }
  }

  #snapshotOf(asked: ApiRequest, token: string): Snapshot {
    const snapshot = this.#snapshots.get(snapshotId(asked, String(parseToken(asked.resource, token).revision)));
    if (snapshot === undefined) {
      const message =
        "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.";
      throw expired("list", asked.resource, message);
    }
    return snapshot;
  }
}

function snapshotId({ resource, namespace, query }: ApiRequest, revision: string): string {
  return JSON.stringify([resource, namespace, query.get("labelSelector"), query.get("fieldSelector"), revision]);
}

export function selectorOf(query: URLSearchParams): { readonly labelSelector?: string } {
  const labelSelector = query.get("labelSelector");
  return labelSelector === null ? {} : { labelSelector };
}

/** Key by which a list is ordered: the name within a namespace, otherwise namespace and name. */
function startKey({ namespace }: ApiRequest, { metadata }: StoredObject): string {
  return namespace === undefined ? keyOf(metadata) : `/${metadata.name}`;
}

function makeToken(revision: string, start: string): string {
  return Buffer.from(JSON.stringify({ v: "meta.k8s.io/v1", rv: Number(revision), start })).toString("base64url");
}

function parseToken(resource: Resource, token: string): { readonly revision: number; readonly start: string } {
  try {
    const { v, rv, start } = JSON.parse(Buffer.from(token, "base64url").toString()) as {
      v: string;
      rv: number;
      start: string;
    };
    if (v === "meta.k8s.io/v1" && typeof rv === "number" && typeof start === "string") return { revision: rv, start };
  } catch {
    // The error below also covers JSON that is no token.
  }
  throw badRequest("list", resource, "invalid continue token: continue key is not valid");
}

const fields: Readonly<Record<string, (object: StoredObject) => string>> = {
  "metadata.name": ({ metadata }) => metadata.name,
  "metadata.namespace": ({ metadata }) => metadata.namespace ?? "",
  source: sourceOf,
  "spec.nodeName": (object) => (object.spec as { nodeName?: string } | undefined)?.nodeName ?? "",
};

/** Fields that objects of one type alone are selected by. */
const fieldsOfOne: Readonly<Record<string, Resource>> = { "spec.nodeName": "pods", source: "events" };

/**
 * Matcher of a `fieldSelector`, for those of the API server's indexed fields that tests need.
 *
 * @throws ApiStatusError 400 for any other field.
 */
export function fieldMatcher(
  resource: Resource,
  query: URLSearchParams,
): ((object: StoredObject) => boolean) | undefined {
  const selector = query.get("fieldSelector");
  if (!selector) return undefined;
  const terms = selector.split(",").map((term) => {
    const [, field = "", operator = "", value = ""] = /^([^=!]+)(==?|!=)(.*)$/.exec(term) ?? [];
    const read = (fieldsOfOne[field] ?? resource) === resource ? fields[field] : undefined;
    if (read === undefined) throw unknownField(resource, field || term);
    return (object: StoredObject) => (read(object) === value) === (operator !== "!=");
  });
  return (object) => terms.every((matches) => matches(object));
}

/** @throws ApiStatusError 400 for a text that is no number. */
export function checkRevision(verb: "list" | "watch", resource: Resource, revision: string): void {
  if (revision === "" || /^[0-9]+$/.test(revision)) return;
  const why = `strconv.ParseUint: parsing ${JSON.stringify(revision)}: invalid syntax`;
  const reported = `invalid resource version: resourceVersion: Invalid value: ${JSON.stringify(revision)}: ${why}`;
  throw badRequest(verb, resource, reported);
}

function checkParameters(resource: Resource, query: URLSearchParams): void {
  const match = query.get("resourceVersionMatch");
  const resourceVersion = query.get("resourceVersion") ?? "";
  const refuse = (field: string, message: string): ApiStatusError => {
    const cause = { reason: "FieldValueForbidden", message: `Forbidden: ${message}`, field };
    return invalidKind("list", resource, { group: "meta.k8s.io", kind: "ListOptions", name: "" }, [cause]);
  };
  if (query.has("sendInitialEvents")) throw refuse("sendInitialEvents", "sendInitialEvents is forbidden for list");
  if (!match) {
    checkRevision("list", resource, resourceVersion);
    return;
  }
  if (resourceVersion === "") {
    throw refuse("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided");
  }
  if (query.get("continue")) {
    throw refuse("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
  }
  if (match === "Exact" && resourceVersion === "0") {
    throw refuse("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"');
  }
  checkRevision("list", resource, resourceVersion);
}
