import { BaseSchema } from '@adonisjs/lucid/schema'

/** Tables that a multi-tenant platform adds to those of AdonisJS' starter kit, under names of its own. */
export default class extends BaseSchema {
  async up() {
    this.schema.createTable('organizations', (table) => {
      table.increments('id')
      table.string('name').notNullable()
      table.string('slug').notNullable().unique()
      table.text('description')
      table.string('logo_url')
      table.string('website_url')
      table.string('contact_email')
      table.string('location')
      table.string('company_size')
      table.string('domain')
      table.enum('account_type', ['individual', 'team', 'enterprise']).notNullable()
      table.boolean('is_verified').notNullable().defaultTo(false)
      table.timestamp('created_at').notNullable()
      table.timestamp('updated_at').nullable()
    })
    this.schema.alterTable('users', (table) => {
      table.string('username')
      table.enum('user_type', ['human', 'client-managed']).notNullable().defaultTo('human')
      table.integer('current_organization_id').references('organizations.id').onDelete('SET NULL')
      table.timestamp('deleted_at')
    })
    this.schema.createTable('roles', (table) => {
      table.increments('id')
      table.string('name').notNullable()
      table.string('slug').notNullable().unique()
    })
    this.schema.createTable('user_roles', (table) => {
      table.increments('id')
      table.integer('user_id').notNullable().references('users.id').onDelete('CASCADE').index()
      table.integer('role_id').notNullable().references('roles.id').onDelete('CASCADE')
      table.integer('organization_id').references('organizations.id').onDelete('CASCADE').index()
    })
    this.schema.createTable('agents', (table) => {
      table.increments('id')
      table.integer('organization_id').notNullable().references('organizations.id').onDelete('CASCADE')
      table.string('visibility').notNullable().defaultTo('private')
    })
    this.schema.createTable('data_clusters', (table) => {
      table.increments('id')
      table.integer('organization_id').notNullable().references('organizations.id').onDelete('CASCADE')
      table.string('slug').notNullable()
      table.string('url').notNullable()
      table.string('status').notNullable().defaultTo('active')
      table.timestamp('heartbeat_at')
    })
  }
}
