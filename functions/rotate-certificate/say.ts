/** What all steps of a rotation share, and the Events by which a rotation reports them. */

import type { CertificateSettings } from "../shared/certificates/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { NewEvent } from "../shared/events/event.ts";
import { tryCreateEvent } from "../shared/events/recorder.ts";
import type { SecretObject } from "../shared/kubernetes/cluster.ts";
import { type CertificateMemory, name } from "./observe.ts";

/** One process that rotates: with what it calls the API server, and what it remembers. */
export interface Rotation {
  readonly context: Pick<Context, "cluster" | "reporter" | "mode">;
  readonly settings: CertificateSettings;
  readonly memory: CertificateMemory;
}

/** Sends an Event about the Secret, also where there is none. One that cannot be sent keeps nothing from going on. */
export async function say(
  { context, settings }: Rotation,
  secret: SecretObject | undefined,
  said: Pick<NewEvent, "type" | "reason" | "message" | "identity">,
): Promise<void> {
  if (context.mode === "shadow") return;
  const about = { resource: "secrets", ...settings.secret, uid: secret?.metadata.uid ?? "" } as const;
  await tryCreateEvent(context, name, keyOf(settings), { about, ...said });
}

/** Reports are about groups; a certificate is of none. */
export function keyOf({ secret }: CertificateSettings) {
  return { namespace: secret.namespace, group: "" };
}
