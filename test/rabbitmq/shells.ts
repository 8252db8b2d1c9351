/** The shells that stock images have, each with the small programs that come with it. */
import { mkdtemp, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Packages } from "./packages.ts";

export interface Shell {
  readonly name: string;
  readonly command: readonly string[];
  /** For PATH. */
  readonly system: string;
}

/** What the gate calls, beside the shell and RabbitMQ's tools: an image that has these has enough. */
const NEEDED = ["cut", "date", "grep", "mkdir", "mv", "rm", "sed", "sh", "sleep", "tr"];
/** What the stand-ins call besides. */
const FOR_STAND_INS = ["basename"];

/** As Debian's and Ubuntu's images have it, and Alpine's: of the latter only what the gate needs, so without `setsid`. */
export async function shellsOf({ dash, busybox }: Packages): Promise<readonly Shell[]> {
  const applets = await mkdtemp(join(tmpdir(), "sluice-busybox-"));
  for (const applet of [...NEEDED, ...FOR_STAND_INS]) await symlink(busybox, join(applets, applet));
  return [
    { name: "dash", command: [dash], system: "/usr/bin:/bin" },
    { name: "busybox sh", command: [busybox, "sh"], system: applets },
  ];
}
