/** The shells of stock images, each with the small programs that come with it. */
import { mkdtemp, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Packages } from "../support/packages.ts";

export interface Shell {
  readonly name: string;
  readonly command: readonly string[];
  /** For PATH. */
  readonly system: string;
}

/** Programs that the gate calls besides the shell and RabbitMQ's tools: an image with these is enough. */
const NEEDED = ["cut", "date", "grep", "mkdir", "mv", "rm", "sed", "sh", "sleep", "tr"];
/** Programs that the stand-ins need in addition. */
const FOR_STAND_INS = ["basename"];

/** The shells of Debian and Ubuntu, and of Alpine. The latter has only what the gate needs, so no `setsid`. */
export async function shellsOf({ dash, busybox }: Packages): Promise<readonly Shell[]> {
  const applets = await mkdtemp(join(tmpdir(), "sluice-busybox-"));
  for (const applet of [...NEEDED, ...FOR_STAND_INS]) await symlink(busybox, join(applets, applet));
  return [
    { name: "dash", command: [dash], system: "/usr/bin:/bin" },
    { name: "busybox sh", command: [busybox, "sh"], system: applets },
  ];
}
