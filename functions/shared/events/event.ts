/** Creates Kubernetes Events on the objects that they are about. */
import { hash } from "node:crypto";
import { escapeControls } from "../base/escape-control.ts";
import { apiVersionOf, type Cluster, hasCode, isKnown, type Resource, resources } from "../kubernetes/cluster.ts";

/** The component that all Events of Sluice name as their source. */
export const eventSource = "sluice";

export interface NewEvent {
  readonly about: {
    readonly resource: Resource;
    /** Only for a type that is not in the table of resources. */
    readonly kind?: string;
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
  };
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  /**
   * Identifies what is reported. It becomes part of the Event's name, so that a second replica, or the same one after a crash,
   * does not send it twice while the API server keeps the first (an hour by default).
   */
  readonly identity: string;
}

/** The name of an Event about an object. */
export function eventName({ name, uid }: NewEvent["about"], reason: string, identity: string): string {
  const digest = hash("sha256", `${uid}\n${reason}\n${identity}`).slice(0, 16);
  return `${name.slice(0, 230)}.${digest}`;
}

/** Sends an Event. One that was sent already is no error. Throws ClusterError. */
export async function createEvent(cluster: Cluster, by: string, event: NewEvent): Promise<void> {
  const { about, type, reason, identity } = event;
  const message = escapeControls(event.message);
  const at = new Date(cluster.serverTimeMs()).toISOString().replace(/\.\d+Z$/, "Z");
  const kind = isKnown(about.resource) ? resources[about.resource].kind : (about.kind ?? "");
  const body = {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: eventName(about, reason, identity) },
    involvedObject: {
      apiVersion: apiVersionOf(about.resource),
      kind,
      namespace: about.namespace,
      name: about.name,
      uid: about.uid,
    },
    type,
    reason,
    message: message.length > 1024 ? `${message.slice(0, 1023)}…` : message,
    source: { component: eventSource },
    reportingComponent: `sluice.dev/${by}`,
    reportingInstance: `sluice-${by}`,
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  try {
    // The API server accepts Events about cluster-scoped objects in this namespace alone.
    await cluster.create("events", about.namespace || "default", body);
  } catch (error) {
    if (!hasCode(error, 409)) throw error;
  }
}
