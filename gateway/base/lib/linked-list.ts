export type Linked<Member> = { previous: Member | undefined; next: Member | undefined }

/** A list in order whose members hold its links, so that each leaves in constant time and no entry is allocated. */
export class LinkedList<Member extends Linked<Member>> {
  first: Member | undefined
  last: Member | undefined

  push(member: Member): void {
    member.previous = this.last
    member.next = undefined
    if (this.last) this.last.next = member
    else this.first = member
    this.last = member
  }

  /** The member must be in this list: a list does not know its members. */
  remove(member: Member): void {
    if (member.previous) member.previous.next = member.next
    else this.first = member.next
    if (member.next) member.next.previous = member.previous
    else this.last = member.previous
    member.previous = undefined
    member.next = undefined
  }
}
