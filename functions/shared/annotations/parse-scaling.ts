/** The scaling settings of a StatefulSet, parsed once at the border. */
import { parsePath, parsePort } from "../base/ports-and-paths.ts";
import type { Metadata } from "../kubernetes/cluster.ts";
import { type Annotation, describeMalformed, type Malformed, read } from "./entry.ts";
import * as keys from "./scaling.ts";

/** The object whose scale subresource gives the wanted number of replicas. It is in the StatefulSet's own namespace. */
export interface Mirrored {
  /** Undefined where it is malformed: there is no such object then. The core group is "". */
  readonly group: string | undefined;
  /** True where no annotation says the API version, so that the kind alone decides about the group. */
  readonly isGroupAssumed: boolean;
  readonly kind: string;
  readonly name: string;
  /** Whether our replicas are written to its status. */
  readonly isWrittenBack: boolean;
}

/** Where each pod of a StatefulSet is asked: all of a URL but its host, which is the pod's own. */
export interface PodEndpoint {
  readonly scheme: "http" | "https";
  readonly port: number;
  /** With its query. */
  readonly path: string;
  /** The header `authorization` that the user and the password of the URL ask for; absent without them. */
  readonly authorization?: string;
}

/** Time between the notification of pods and their departure. */
export interface Delay {
  /** Above 0; undefined where it is malformed: the size stays as it is then. */
  readonly delayMs: number | undefined;
  /** Undefined where it is malformed: the size stays as it is then. */
  readonly endpoint: PodEndpoint | undefined;
}

export interface Scaling {
  /** The name of another StatefulSet. */
  readonly leader: string | undefined;
  readonly upscalesOnlyWhenLeaderReady: boolean;
  /** In milliseconds. Undefined where it is absent, and where it is malformed. */
  readonly minTimeMs: number | undefined;
  /** In milliseconds since the epoch. Undefined where it is absent, and where it is malformed. */
  readonly lastDownscaleMs: number | undefined;
  readonly mirrored: Mirrored | undefined;
  /** Replicas. */
  readonly forced: number | undefined;
  /** Undefined: a downscale has no delay. */
  readonly delay: Delay | undefined;
  readonly preparesDownscale: boolean;
  /** As its user wrote them; undefined where they are absent or empty. */
  readonly preparePath: string | undefined;
  readonly preparePort: string | undefined;
  /** At these ordinals a pod that Sluice cannot tell may leave all the same. */
  readonly unprepared: readonly { readonly first: number; readonly last: number }[];
  readonly refusesDownscale: boolean;
  readonly malformed: readonly Malformed[];
}

/** Undefined for an object without scaling settings. */
export function parseScaling(metadata: Metadata): Scaling | undefined {
  const { labels = {}, annotations = {} } = metadata;
  if (!keys.scalingEntries.some(({ kind, key }) => (kind === "label" ? labels : annotations)[key] !== undefined)) {
    return undefined;
  }
  const malformed: Malformed[] = [];
  const of = <T>(entry: Annotation<T>): T | undefined => read(entry, metadata, malformed);
  return {
    leader: named(of(keys.downscaleLeader)),
    upscalesOnlyWhenLeaderReady: of(keys.upscaleOnlyWhenLeaderReady) ?? false,
    minTimeMs: of(keys.minTimeBetweenZonesDownscale),
    lastDownscaleMs: of(keys.lastDownscale),
    mirrored: mirroredOf(metadata, malformed),
    forced: of(keys.forceReplicas),
    delay: delayOf(metadata, malformed),
    preparesDownscale: of(keys.prepareDownscale) ?? false,
    preparePath: named(of(keys.prepareDownscalePath)),
    preparePort: named(of(keys.prepareDownscalePort)),
    unprepared: of(keys.unpreparedPods) ?? [],
    refusesDownscale: of(keys.noDownscale) ?? false,
    malformed,
  };
}

/** True if its owner wrote a malformed value for this key. */
export function isMalformed({ malformed }: Scaling, { key }: Annotation<unknown>): boolean {
  return malformed.some((one) => one.key === key);
}

/** True if another object sets its size: it follows a leader, or mirrors an object. */
export function hasLeader({ leader, mirrored }: Scaling): boolean {
  return leader !== undefined || mirrored !== undefined;
}

function mirroredOf(metadata: Metadata, malformed: Malformed[]): Mirrored | undefined {
  const name = named(read(keys.mirrorName, metadata));
  const kind = named(read(keys.mirrorKind, metadata));
  if (name === undefined || kind === undefined) return undefined;
  const hasApiVersion = metadata.annotations?.[keys.mirrorApiVersion.key] !== undefined;
  const hasWriteBack = metadata.annotations?.[keys.mirrorWriteBack.key] !== undefined;
  return {
    name,
    kind,
    group: hasApiVersion ? read(keys.mirrorApiVersion, metadata, malformed) : assumedGroupOf(kind),
    isGroupAssumed: !hasApiVersion,
    isWrittenBack: hasWriteBack ? (read(keys.mirrorWriteBack, metadata, malformed) ?? false) : true,
  };
}

/** Loki's chart writes no API version. Of the workloads with a scale that people mirror, these kinds are in no other group. */
function assumedGroupOf(kind: string): string {
  return kind === "StatefulSet" || kind === "Deployment" ? "apps" : "";
}

/** As rollout-operator has it: both must be there, and a delay of 0 is none. */
function delayOf(metadata: Metadata, malformed: Malformed[]): Delay | undefined {
  const { annotations = {} } = metadata;
  const url = annotations[keys.prepareDelayedDownscaleUrl.key] ?? "";
  if (url === "" || (annotations[keys.delayedDownscale.key] ?? "") === "") return undefined;
  const delayMs = read(keys.delayedDownscale, metadata, malformed);
  if (delayMs === 0) return undefined;
  const endpoint = parseEndpoint(url);
  if (endpoint === undefined) {
    const entry = keys.prepareDelayedDownscaleUrl;
    malformed.push({ key: entry.key, message: describeMalformed({ ...entry, grammar: endpointGrammar }, url) });
  }
  return { delayMs, endpoint };
}

const endpointGrammar = "a URL of http or https with a path, such as http://pod:8080/ingester/prepare";

const usualPorts = { http: 80, https: 443 } as const;

/** The endpoint that a URL names; undefined for a text that is no http or https URL that can be called (spec 3.4). */
export function parseEndpoint(text: string): PodEndpoint | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const scheme = url.protocol === "https:" ? "https" : "http";
  // The text itself, and not what the parser makes of `:99999` or of a default.
  const port = url.port === "" ? usualPorts[scheme] : parsePort(url.port);
  const path = parsePath(`${url.pathname}${url.search}`);
  if (port === undefined || path === undefined) return undefined;
  if (url.username === "" && url.password === "") return { scheme, port, path };
  const credentials = `${decoded(url.username)}:${decoded(url.password)}`;
  return { scheme, port, path, authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function named(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
