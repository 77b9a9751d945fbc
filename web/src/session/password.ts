// The lengths of passwords. No I/O.

const PASSWORD_MIN = 12;
/** Maximum number of characters of a password. */
export const PASSWORD_MAX = 256;

/** Returns the problem of a new password. Undefined: the server accepts its length. */
export function passwordProblem(password: string): string | undefined {
  const { length } = [...password];
  return length < PASSWORD_MIN || length > PASSWORD_MAX ? `A password has ${PASSWORD_MIN} to ${PASSWORD_MAX} characters.` : undefined;
}
