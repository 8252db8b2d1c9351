/** The settings of the server, and what is wrong with them. The runner has its own. */
import { isIP } from "node:net";
import { absolutePath, readEnvironment, unset } from "../../shared/base/environment.ts";
import { parsePort } from "../../shared/base/ports-and-paths.ts";
import { type Environment, setting, type ValuesOf } from "../../shared/base/settings.ts";

const mostDrainSeconds = 3600;

function parseSeconds(text: string): number | undefined {
  return /^\d{1,4}$/.test(text) && Number(text) <= mostDrainSeconds ? Number(text) * 1000 : undefined;
}

export const managerSettings = {
  podUid: setting({
    name: "POD_UID",
    fallback: unset,
    meaning: "the uid of the pod, from the downward API: calls for another pod are refused",
    grammar: "the uid of the pod",
    parse: (text: string) => (/^[\w.-]{1,200}$/.test(text) ? text : undefined),
  }),
  host: setting({
    name: "POD_IP",
    fallback: unset,
    meaning: "the address of the pod, from the downward API: the server listens there",
    grammar: "an address of IPv4 or IPv6",
    parse: (text: string) => (isIP(text) === 0 ? undefined : text),
  }),
  port: setting({
    name: "SLUICE_PORT",
    fallback: "9844",
    meaning: "the port of the server",
    grammar: "a port from 1 to 65535",
    parse: parsePort,
  }),
  tokenFile: setting({
    name: "SLUICE_TOKEN_FILE",
    fallback: "/sluice/token/token",
    meaning: "the file with the token that calls must have; it is read for each call",
    ...absolutePath,
  }),
  certificateFolder: setting({
    name: "SLUICE_CERTIFICATE",
    fallback: "/sluice/certificate",
    meaning: "the folder with tls.crt and tls.key; where it is missing, the server speaks HTTP without TLS",
    ...absolutePath,
  }),
  mountedFolder: setting({
    name: "SLUICE_MOUNTED",
    fallback: "/sluice/mounted",
    meaning: "the folder where the Secret is mounted, as of the runner",
    ...absolutePath,
  }),
  stateFolder: setting({
    name: "SLUICE_STATE",
    fallback: "/sluice/state",
    meaning: "the folder of an emptyDir on disk, as of the runner",
    ...absolutePath,
  }),
  filesFolder: setting({
    name: "SLUICE_FILES",
    fallback: "/sluice/files",
    meaning: "the folder of an emptyDir in memory, as of the runner",
    ...absolutePath,
  }),
  drainMs: setting({
    name: "SLUICE_DRAIN_SECONDS",
    fallback: "5",
    meaning: "how long the process runs on after the pod has left its Services, before it is stopped",
    grammar: `whole seconds from 0 to ${mostDrainSeconds}`,
    parse: parseSeconds,
  }),
} as const;

export type ManagerServerSettings = ValuesOf<typeof managerSettings>;

/** The settings, or one message of one line for each that is missing or malformed. */
export function readManagerSettings(environment: Environment): ManagerServerSettings | readonly string[] {
  return readEnvironment(managerSettings, environment);
}
