/** The parts of Knative's objects that its controllers read here, and where the API server has them. */
import type { ApiServerSource as AdaptedSource, KnativeService as QueuedService } from "../dataplane/programs.ts";

type QueuedPod = QueuedService["spec"]["template"]["spec"];

export interface Metadata {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly generation: number;
}

export interface KnativeObject {
  readonly metadata: Metadata;
}

export interface Destination {
  readonly ref?: { readonly kind: string; readonly name: string; readonly namespace?: string };
  readonly uri?: string;
}

/** As the functions' manifests have it: one container, whose variables have values. */
export interface KnativeService extends KnativeObject {
  readonly spec: {
    readonly template: {
      readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
      readonly spec: Omit<QueuedPod, "containers"> & {
        readonly serviceAccountName?: string;
        readonly containers: readonly (QueuedPod["containers"][number] & {
          readonly env?: readonly { readonly name: string; readonly value?: string }[];
        })[];
      };
    };
  };
}

export interface ApiServerSource extends KnativeObject {
  readonly spec: AdaptedSource["spec"] & { readonly serviceAccountName?: string; readonly sink: Destination };
}

export interface PingSource extends KnativeObject {
  readonly spec: { readonly sink: Destination };
}

/** Times and numbers of a delivery are for the dispatcher, and are passed on to it as they are. */
export interface Delivery {
  readonly deadLetterSink?: Destination;
  readonly [setting: string]: unknown;
}

export interface Broker extends KnativeObject {
  readonly spec: { readonly delivery?: Delivery };
}

export interface Trigger extends KnativeObject {
  readonly spec: { readonly broker: string; readonly subscriber: Destination; readonly delivery?: Delivery };
}

/** Lists of a whole cluster. */
export const lists = {
  services: "/apis/serving.knative.dev/v1/services",
  apiServerSources: "/apis/sources.knative.dev/v1/apiserversources",
  pingSources: "/apis/sources.knative.dev/v1/pingsources",
  brokers: "/apis/eventing.knative.dev/v1/brokers",
  triggers: "/apis/eventing.knative.dev/v1/triggers",
  channels: "/apis/messaging.knative.dev/v1/inmemorychannels",
} as const;

/** The list of one namespace. */
export function listIn(list: string, namespace: string): string {
  const at = list.lastIndexOf("/");
  return `${list.slice(0, at)}/namespaces/${namespace}${list.slice(at)}`;
}

/** The path of one object. */
export function pathOf(list: string, { namespace, name }: Pick<Metadata, "namespace" | "name">): string {
  return `${listIn(list, namespace)}/${name}`;
}

/** What names an object within its kind. */
export function keyOf({ metadata: { namespace, name } }: KnativeObject): string {
  return `${namespace}/${name}`;
}

/** What Knative's programs take for an object that its controllers are done with. */
export function readyStatus({ metadata }: KnativeObject, ...conditions: readonly string[]): object {
  return {
    observedGeneration: metadata.generation,
    conditions: ["Ready", ...conditions].map((type) => ({ type, status: "True" })),
  };
}
