// The roles of forms.
import { v1 } from "folio-client";

export const ROLES = [
  { value: String(v1.Role.VIEWER), label: "Viewer: reads" },
  { value: String(v1.Role.MEMBER), label: "Member: chats, approves, edits" },
  { value: String(v1.Role.ADMIN), label: "Admin: manages" },
];

/** Returns the role of a form value. An unknown value is the lowest role. */
export function roleOfValue(value: string | null): v1.Role {
  const role = Number(value);
  return role === v1.Role.MEMBER || role === v1.Role.ADMIN ? role : v1.Role.VIEWER;
}

export function roleName(role: v1.Role): string {
  return (v1.Role[role] ?? "").toLowerCase();
}
